# An image of this working tree without ko: docker build -t taintkeeper:dev .
# For two architectures: docker buildx build --platform linux/amd64,linux/arm64 -t taintkeeper:dev .
# Releases are built by ko (.goreleaser.yaml), with the same flags.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG VERSION="(devel)"
ARG TARGETOS
ARG TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /taintkeeper ./cmd/taintkeeper

FROM scratch
COPY --from=build /taintkeeper /taintkeeper
USER 65532:65532
ENTRYPOINT ["/taintkeeper"]
