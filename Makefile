# The two that matter: `make demo` shows everything, `make test` proves it.

SHELL := /bin/bash

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
E2E := web/e2e

# Whatever compiles here compiles alike, so that each package is compiled at most twice:
# for the program and what tests build, and with the race detector for tests and checks,
# there without what only debuggers read: compilers take a fifth less time.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath
export CGO_ENABLED := 0
RACE := -race -gcflags=all=-dwarf=false
PROVE := CI=true CGO_ENABLED=1 go test $(RACE) -vet=off

.DEFAULT_GOAL := help
.PHONY: help build demo test test-busy test-idle check lint vet staticcheck vuln screenshots bench-ledger bench-pages

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

build: ## build bin/breakwater
	go build -o bin/breakwater ./cmd/breakwater

# exec: Ctrl-C and DEMO_SECONDS reach the demo itself.
demo: ## run everything on this machine; DEMO_SECONDS=n stops after n seconds
	@.ci/need postgresql
	@$(MAKE) --no-print-directory build
	@exec ./bin/breakwater demo

# The processes of cmd/breakwater are timed, so they run when the other packages are
# done; the browser looks at the demo they start. Most of that time they wait for leases
# and windows to end, so there are more of them than cores: twice -parallel, each in
# a test binary without the race detector (plain_test.go). The time they leave is for
# what compiles long and can wait: other products' code, and staticcheck.
test: ## everything that proves the project; installs what it needs
	@.ci/need postgresql redis-server prometheus-alertmanager gcc python3 chromium nodejs npm
	@$(MAKE) --no-print-directory $(E2E)/node_modules/.stamp build
	@.ci/beside test-idle $(MAKE) --no-print-directory vet test-busy

# The package whose tests compile other products, at the lowest priority.
PRODUCTS := slo/gate/dialect

# The three that take longest begin first, or the last one would run alone.
test-busy:
	$(PROVE) '-ldflags=-s -w' -p 4 -timeout 14m ./internal/store ./web ./gateway $$(go list ./... | grep -vE '/(cmd/breakwater|$(PRODUCTS))$$')
	$(PROVE) -ldflags=-w -parallel 4 -timeout 25m ./cmd/breakwater

test-idle:
	$(PROVE) '-ldflags=-s -w' -timeout 40m $$(go list ./... | grep -E '/($(PRODUCTS))$$')
	@.ci/idle $(MAKE) --no-print-directory staticcheck vuln

check: ## the fast part, for people at work
	go vet ./...
	go test -short -vet=off '-ldflags=-s -w' ./...

lint: vet staticcheck vuln ## vet, staticcheck, known vulnerabilities

vet:
	@.ci/need gcc
	CGO_ENABLED=1 go vet $(RACE) ./...

staticcheck:
	go run -exec "env CGO_ENABLED=1 'GOFLAGS=$(GOFLAGS) $(RACE)'" $(STATICCHECK) ./...

vuln:
	@.ci/vuln

bench-ledger: build ## budgets over 43,200,000 minute rows, and the rates of ingest; some 30 minutes
	@.ci/need postgresql
	go test -run '^$$' -bench 'BudgetOfAMonth|BenchmarkIngest' -timeout 90m ./internal/store -slo.routes 1000 -slo.control $(CURDIR)/bin/breakwater
	go test -run '^$$' -bench ParseAndFold -cpu 1 ./slo/ingest

bench-pages: ## how long the server takes for each page over 200 services and 30 days; some 40 minutes, 25 GB
	@.ci/need postgresql
	go test -run '^$$' -bench Pages -benchtime 1x -timeout 120m ./cmd/breakwater

# After three minutes a drill is over and a service is frozen: every page has something to show.
screenshots: ## pictures of every page into web/e2e/shots
	@.ci/need postgresql chromium nodejs npm
	@$(MAKE) --no-print-directory $(E2E)/node_modules/.stamp build
	@.ci/with-demo 180 npm --prefix $(E2E) run shots

$(E2E)/node_modules/.stamp: $(E2E)/package-lock.json
	cd $(E2E) && npm ci --no-audit --no-fund --loglevel=error
	@touch $@
