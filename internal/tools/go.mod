// The repository's own tools, such as its linters. No release includes them.
module github.com/weir-go/weir/internal/tools

go 1.26.0

require golang.org/x/mod v0.42.0
