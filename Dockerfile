# The two servers of captau, `collect` and `serve`; docs/docker.md explains it.
FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
# `postgres,coco` adds METEOR and SPICE, which are under the LGPL and the AGPL (docs/licences.md).
ARG EXTRAS=postgres
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/captau-*.whl)[$EXTRAS]" \
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
