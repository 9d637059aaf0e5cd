module github.com/weir-go/weir/router/weirchi

go 1.26.0

require (
	github.com/go-chi/chi/v5 v5.5.0
	github.com/weir-go/weir v0.1.0
)

replace github.com/weir-go/weir => ../../
