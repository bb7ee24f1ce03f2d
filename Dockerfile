# The controller alone, for config/deployment.yaml: docker build -t taintkeeper:dev .
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 go build -o /taintkeeper ./cmd/taintkeeper

FROM scratch
COPY --from=build /taintkeeper /taintkeeper
USER 65532:65532
ENTRYPOINT ["/taintkeeper"]
