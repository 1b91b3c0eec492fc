# docker build -t penstock .
# With Arrow Flight, for Spark (some 170 MB more): docker build --build-arg LOCK=serve -t penstock .
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
ARG LOCK=image
WORKDIR /src
COPY locks/ locks/
RUN python -m venv /opt/penstock
RUN /opt/penstock/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir --require-hashes --requirement locks/${LOCK}.txt
COPY pyproject.toml README.md LICENSE ./
COPY src/ src/
RUN /opt/penstock/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps .
RUN /opt/penstock/bin/penstock shims /opt/penstock/shims
RUN /opt/penstock/bin/python -m pip uninstall --quiet --yes pip

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="Penstock" \
      org.opencontainers.image.description="A durable message broker for clients of Google Pub/Sub and Azure Queue Storage" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/penstock /opt/penstock
# Whatever user the container is given can write into the volumes, and owns what it writes. bash becomes the program
# that `sh -c` starts, so that the program gets the signals; dash would stay between as process 1, and ignore them.
RUN mkdir -p /var/lib/penstock /data && chmod 1777 /var/lib/penstock /data
RUN ln -sf bash /bin/sh
ENV PATH=/opt/penstock/bin:/opt/penstock/shims:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PENSTOCK_HOST=0.0.0.0 \
    PENSTOCK_READY_FILE=/dev/shm/penstock.json \
    PENSTOCK_SEED=auto \
    PENSTOCK_HTTP_PORT=8090 \
    PENSTOCK_GRACE_SECONDS=0.5
WORKDIR /var/lib/penstock
VOLUME /var/lib/penstock
EXPOSE 8085 8090 8681 8682 9123 10000 10001 10002
USER 10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/$PENSTOCK_HTTP_PORT && printf 'GET /ready HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"]
# No ENTRYPOINT: programs that start the vendors' images name a command, or put an entry point of their own in its place.
CMD ["penstock", "serve"]
