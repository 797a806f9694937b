# Needs Go, make, and Python 3 with pip. Everything that is fetched goes to .tools and Go's caches.

# ENVOY=/path/to/envoy runs that Envoy instead of the pinned one.
pinned := .tools/envoy-1.40.0
envoys := $(patsubst scripts/envoy-%.txt,.tools/envoy-%,$(wildcard scripts/envoy-*.txt))
ifneq ($(ENVOY),)
envoys := $(filter-out $(pinned),$(envoys))
pinned :=
endif

servers := $(patsubst scripts/%.txt,.tools/%,$(wildcard scripts/redis-*.txt scripts/valkey-*.txt))

BUF := go tool -modfile=tools/go.mod buf
FUZZTIME := 10000x
TESTFLAGS :=
SEEDS := 200

.PHONY: help tools build imports generate lint test soak-budget fuzz bench demo compose-test compose-up console-test up clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

tools: $(envoys) $(servers) .tools/grpcurl .tools/prometheus .tools/promtool .tools/python ## fetch the pinned Envoys, Redis and Valkey, clients of the gRPC API, and Prometheus

.tools/grpcurl: tools/go.mod
	go build -modfile=tools/go.mod -o $@ github.com/fullstorydev/grpcurl/cmd/grpcurl

# Without the service discoveries of clouds, which are most of it.
.tools/prometheus .tools/promtool: tools/prometheus/go.mod
	cd tools/prometheus && CGO_ENABLED=0 go build -trimpath -tags remove_all_sd -ldflags '-s -w' -o ../../$@ github.com/prometheus/prometheus/cmd/$(@F)

.tools/python: scripts/python.txt
	python3 -m venv $@
	$@/bin/pip install --quiet --disable-pip-version-check -r scripts/python.txt
	@touch $@

.tools/envoy-%:
	@scripts/fetch-envoy $*

.tools/redis-% .tools/valkey-%:
	@scripts/fetch-redis $(notdir $@)

build: ## build bin/extproc, static
	CGO_ENABLED=0 go build -trimpath -o bin/extproc ./cmd/extproc

# What the schema imports, so that buf needs no network.
imports:
	@go run ./api/proto/imports .tools/proto

generate: imports ## generate the Go code of api/proto
	$(BUF) generate

lint: imports ## gofmt, vet, staticcheck, buf lint, buf breaking, and whether generated code is current
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted by gofmt:"; echo "$$files"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	$(BUF) lint
	scripts/check-breaking
	scripts/check-generated

# The integration tests come alone: beside the enumerations of the unit tests Envoy starves.
test: tools ## all tests, those on the real Envoy included
	go test -race -timeout 15m $(TESTFLAGS) $$(go list ./... | grep -vE '/test/(integration|compose|console)$$')
	go test -race -timeout 15m $(TESTFLAGS) ./test/integration

soak-budget: tools ## the payment law over many more fleets and simulated lives than in `make test`
	SOAK=$(SEEDS) go test -count 1 -timeout 0 -v -run 'TestFleet$$|TestSimulation$$' ./pkg/budget/redis

fuzz: ## each fuzz target, FUZZTIME inputs each
	scripts/fuzz $(FUZZTIME)

bench: $(pinned) ## what Verdict costs, beside yardsticks
	go run ./test/bench $(BENCH)

demo: $(pinned) ## what Verdict says to many failures, on the real Envoy
	@echo "building the demo ..."
	@go run ./demo

# Prepares an engine and the images where there is no engine or an image cannot be pulled.
STANDIN_IMAGES := ../shared/tools/standin-images.sh

compose-test: ## docker-compose.yml brought up, driven, and taken apart piece by piece
	STANDIN_IMAGES=$(abspath $(STANDIN_IMAGES)) go test -count 1 -timeout 15m $(TESTFLAGS) ./test/compose

compose-up: ## the whole system in containers, until interrupted
	docker compose up --build

.tools/axe.min.js: scripts/axe.txt
	@scripts/fetch-axe

console-test: $(pinned) .tools/axe.min.js ## every button of the web console, in a real Chromium; UPDATE=1 takes the pictures of docs
	@scripts/need-chromium
	UPDATE=$(UPDATE) go test -count 1 -timeout 5m $(TESTFLAGS) ./test/console

up: $(pinned) ## keep the demo's Envoy, Verdict and upstream running
	@echo "building the demo ..."
	@go build -o bin/demo ./demo && exec bin/demo up

clean: ## remove what was built and fetched
	rm -rf bin .tools
