# Runs `make demo` on a processor. Untested: no container engine was at hand when this was written.
#   docker build -t kernelwright .
#   docker run --rm --security-opt seccomp=unconfined -v "$PWD/out:/work/out" kernelwright
# The sandbox needs user namespaces or Landlock; `kernelwright doctor` says which tier the container allows.
FROM python:3.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends g++ make && rm -rf /var/lib/apt/lists/*
WORKDIR /work
COPY . .
RUN make .venv/.ready
CMD ["make", "demo"]
