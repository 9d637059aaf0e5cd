// Package scenarios holds scenario files, for weir sim to read, and those of
// weir arena for the binary to have with it.
package scenarios

import (
	"embed"
	"io/fs"
)

//go:embed arena/*.yaml arena/production/*.yaml
var files embed.FS

// Arena returns the files of the arena. Each scenario has Auto's guard wherever
// a policy is to stand. The classic rows are at the top, the rows about
// production in the folder production.
func Arena() fs.FS {
	arena, err := fs.Sub(files, "arena")
	if err != nil {
		panic(err) // arena is a valid path
	}
	return arena
}
