# ramify on the CPU. Built and tried out:
#     docker build --tag ramify .
#     docker run --rm ramify                                               # the demo
#     docker run --rm -v "$PWD:/home/ramify/desk" ramify ramify learn photos --out model
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .

FROM python:3.12-slim
RUN useradd --create-home ramify
COPY --from=build /wheel /wheel
RUN python -m pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
      "$(ls /wheel/*.whl)[efficientnet,serve]" \
 && rm -r /wheel
USER ramify
WORKDIR /home/ramify/desk
CMD ["ramify", "demo"]
