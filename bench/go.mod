module github.com/weir-go/weir/bench

go 1.26.0

replace github.com/weir-go/weir => ../

require github.com/weir-go/weir v0.1.0

require (
	github.com/Code-Hex/go-generics-cache v1.5.1
	github.com/bohde/codel v0.2.0
	github.com/dgraph-io/ristretto/v2 v2.4.2
	github.com/didip/tollbooth/v8 v8.0.1
	github.com/dunglas/httpsfv v1.1.2
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/hashicorp/golang-lru v0.5.4
	github.com/maypok86/otter/v2 v2.4.0
	github.com/sethvargo/go-limiter v0.7.1
	github.com/throttled/throttled/v2 v2.15.0
	go.uber.org/ratelimit v0.3.1
	golang.org/x/sync v0.24.0
	golang.org/x/time v0.16.0
)

require (
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	gonum.org/v1/gonum v0.16.0 // indirect
)

require (
	github.com/benbjohnson/clock v1.3.0 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/bmizerany/perks v0.0.0-20141205001514-d9a9656a3a4b // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/go-pkgz/expirable-cache/v3 v3.0.0 // indirect
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	github.com/redis/go-redis/v9 v9.23.0
	github.com/weir-go/weir/redislimit v0.0.0
	golang.org/x/exp v0.0.0-20220328175248-053ad81199eb // indirect
	golang.org/x/net v0.62.0 // indirect
)

replace github.com/weir-go/weir/redislimit => ../redislimit
