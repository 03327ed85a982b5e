"""How often one question is sent at most: three budgets, one inside the other.

1. A role asks at most ``MAX_ANSWERS`` times: once more where it cannot use the answer (``asking.py``).
2. Each time a structured answer that the schema refuses is asked for ``OUTPUT_RETRIES`` times more
   (``model_client.py``); code in prose has no schema and no such retry.
3. Each of these requests is tried at most ``MAX_TRIES`` times where the API fails (``transport.py``).

All of it is charged: no try begins once the budget is used up.
"""

from kernelwright.agents.llm.asking import MAX_ANSWERS
from kernelwright.agents.llm.model_client import OUTPUT_RETRIES
from kernelwright.agents.llm.transport import MAX_TRIES

MAX_SENDS_FOR_CODE = MAX_ANSWERS * MAX_TRIES
"""Sends of a question that is answered in prose."""
MAX_SENDS_FOR_DATA = MAX_ANSWERS * (1 + OUTPUT_RETRIES) * MAX_TRIES
"""Sends of a question that is answered by a schema."""
