module github.com/weir-go/weir/router/weirgorilla

go 1.26.0

require (
	github.com/gorilla/mux v1.8.1
	github.com/weir-go/weir v0.1.0
)

replace github.com/weir-go/weir => ../../
