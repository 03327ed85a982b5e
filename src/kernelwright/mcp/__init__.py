"""The MCP server: the referee, the expert, the skills and the memory as tools for coding agents.

``server.py`` builds it, ``tools.py`` has the tools. What takes long runs in a process of its own
(``child.py``, started by ``workers.py``), so that the server answers meanwhile and a call can be cancelled.
May import everything but ``cli/``; needs the extra ``mcp``, all but the modules of the child. Begin with
``tools.py``.
"""
