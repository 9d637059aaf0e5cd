package floors

import (
	"fmt"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
)

// maxLines bounds the lines of a package, without its tests, in the trees of sized.
const maxLines = 2000

// sized are the trees of packages that have a bound on their lines.
var sized = []string{"service/internal"}

// CheckSizes returns the packages that have too many lines, in order of their names.
func CheckSizes(files []File) (breaches []Breach) {
	return checkSizes(files, sized)
}

func checkSizes(files []File, trees []string) (breaches []Breach) {
	lines := map[string]int{}
	for _, f := range files {
		in := path.Dir(f.Name) + "/"
		if !strings.HasSuffix(f.Name, "_test.go") && slices.ContainsFunc(trees, func(tree string) bool { return strings.HasPrefix(in, tree+"/") }) {
			lines[path.Dir(f.Name)] += strings.Count(f.Source, "\n")
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(lines)) {
		if n := lines[pkg]; n > maxLines {
			breaches = append(breaches, Breach{token.Position{Filename: pkg}, fmt.Sprintf("has %d lines: at most %d, so divide it by what its parts mean", n, maxLines)})
		}
	}
	return breaches
}
