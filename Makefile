# make help lists what there is.

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# where go install puts what the tests need
export PATH := $(PATH):$(shell go env GOPATH)/bin

.PHONY: build demo test bench lint need help

build: ## build bin/weir
	go build -o bin/weir ./cmd/weir

demo: build ## watch a service collapse under load, and a proxy save it
	@bin/weir demo

test: need lint ## everything that guards the code: installs what it needs, then checks and tests
	@echo "== go test -race, one package after the other: the experiments measure real time"
	go build -race ./...
	go test -race -p 1 ./...
	@echo "== what is measured without the race detector: allocations, memory, hit ratios, what the arena promises of Auto"
	go test ./flight ./cache ./tally ./server/httpapi
	go test -run Acceptance ./lab/arena
	cd bench && go test ./hitratio
	@echo "== go test -race, bench module"
	cd bench && go test -race ./...
	@echo "== go test -race, the module of examples with other routers"
	cd examples/routers && go test -race ./...
	@echo "== go test, the manifests for Kubernetes"
	cd deploy && go test ./...

lint: ## formatting, vet, staticcheck, tidy modules
	@echo "== gofmt"
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "not formatted (run gofmt -w): $$unformatted"; exit 1; }
	@echo "== go mod tidy"
	go mod tidy -diff
	cd bench && go mod tidy -diff
	cd examples/routers && go mod tidy -diff
	cd deploy && go mod tidy -diff
	@echo "== go vet"
	go vet ./...
	cd bench && go vet ./...
	cd examples/routers && go vet ./...
	cd deploy && go vet ./...
	@echo "== staticcheck"
	go run $(STATICCHECK) ./...
	cd bench && go run $(STATICCHECK) ./...
	cd examples/routers && go run $(STATICCHECK) ./...
	cd deploy && go run $(STATICCHECK) ./...

bench: ## benchmarks, side by side with the obvious alternatives, and a table of ratios
	go test -run '^$$' -bench . -benchmem -cpu 1,2 ./...
	cd bench && go test -run '^$$' -bench . -benchmem -benchtime 200ms -count 3 -cpu 1,2 -timeout 60m . | go run ./table

need: # what the tests need beside Go: a C compiler for the race detector, promtool, and clients: Chromium, curl, h2load, wrk, hey, k6, ghz
	@internal/tools/need cc gcc libc6-dev
	@internal/tools/need chromium chromium fonts-dejavu-core
	@internal/tools/need curl curl
	@internal/tools/need h2load nghttp2-client
	@internal/tools/need wrk wrk
	@internal/tools/need promtool prometheus
	@internal/tools/goneed hey github.com/rakyll/hey@v0.1.5
	@internal/tools/goneed k6 go.k6.io/k6@v1.8.1
	@internal/tools/goneed ghz github.com/bojand/ghz/cmd/ghz@v0.121.0

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10
