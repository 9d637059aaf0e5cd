module github.com/weir-go/weir/bench

go 1.26.0

replace github.com/weir-go/weir => ../

require github.com/weir-go/weir v0.0.0

require golang.org/x/sync v0.24.0
