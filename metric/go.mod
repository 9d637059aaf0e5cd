module github.com/weir-go/weir/metric

go 1.26.0

require (
	github.com/prometheus/client_golang v1.25.0
	google.golang.org/grpc v1.85.0
)

require (
	github.com/prometheus/common v0.72.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/weir-go/weir v0.1.0
	github.com/weir-go/weir/grpclimit v0.1.0
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/weir-go/weir => ../

replace github.com/weir-go/weir/grpclimit => ../grpclimit
