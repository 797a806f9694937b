# The service: one static binary, no shell, nobody to log in as. `docker build .`
FROM golang:1.26.8-trixie AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build,sharing=locked \
    CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /extproc ./cmd/extproc

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /extproc /extproc
USER 65532:65532
ENTRYPOINT ["/extproc"]
CMD ["serve"]
