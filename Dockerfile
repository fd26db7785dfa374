# The two servers of captau, `collect` and `serve`; docs/docker.md explains it.
FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
# At a release, scripts/release/pin_versions.py writes requirements.lock, and the digests of images.
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
 && if [ -e requirements.lock ]; then cp requirements.lock /wheels; fi

FROM python:3.13-slim
# `server,coco` adds METEOR and SPICE, which are under the LGPL and the AGPL (docs/licences.md).
ARG EXTRAS=server
COPY --from=build /wheels /wheels
RUN if [ -e /wheels/requirements.lock ]; then \
      pip install --no-cache-dir --require-hashes -r /wheels/requirements.lock; \
    fi \
 && pip install --no-cache-dir "$(echo /wheels/captau-*.whl)[$EXTRAS]" \
 && rm -r /wheels \
 && useradd --create-home --uid 1000 captau \
 && install --directory --owner captau /data
USER captau
WORKDIR /data
VOLUME /data
ENV CAPTAU_DATA=/data/datasets \
    CAPTAU_CACHE=/data/cache \
    PYTHONUNBUFFERED=1
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/', timeout=4)"]
ENTRYPOINT ["captau"]
CMD ["serve", "host=0.0.0.0"]
