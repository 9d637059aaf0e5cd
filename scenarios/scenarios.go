// Package scenarios holds scenario files, for weir sim to read, and those of
// weir arena for the binary to have with it.
package scenarios

import (
	"embed"
	"io/fs"
)

//go:embed arena/*.yaml
var files embed.FS

// Arena returns the files of the arena: one scenario each, without variants,
// which has Auto's guard wherever a policy is to stand.
func Arena() fs.FS {
	arena, err := fs.Sub(files, "arena")
	if err != nil {
		panic(err) // arena is a valid path
	}
	return arena
}
