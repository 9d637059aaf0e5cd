package floors

import (
	"fmt"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxLines bounds the lines of a package, without its tests and generated files, in the trees of sized.
const maxLines = 2000

// generated matches the mark of a generated file: see go help generate.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// sized are the trees whose packages have a bound on their lines.
var sized = []string{"service/internal"}

// larger has the packages of those trees that are above maxLines, each with its lines. It may only shrink.
var larger = map[string]int{
	"service/internal/h2inline": 2489,
	"service/internal/peer":     3696,
}

// CheckSizes returns the packages that have too many lines, in order of their names.
func CheckSizes(files []File) (breaches []Breach) {
	return checkSizes(files, sized, larger)
}

func checkSizes(files []File, trees []string, larger map[string]int) (breaches []Breach) {
	lines := map[string]int{}
	for _, f := range files {
		in := path.Dir(f.Name) + "/"
		if !strings.HasSuffix(f.Name, "_test.go") && !generated.MatchString(f.Source) && slices.ContainsFunc(trees, func(tree string) bool { return strings.HasPrefix(in, tree+"/") }) {
			lines[path.Dir(f.Name)] += strings.Count(f.Source, "\n")
		}
	}
	for pkg := range larger {
		lines[pkg] += 0 // also one that is gone
	}
	for _, pkg := range slices.Sorted(maps.Keys(lines)) {
		n, most := lines[pkg], larger[pkg]
		breach := func(format string, args ...any) {
			breaches = append(breaches, Breach{token.Position{Filename: pkg}, fmt.Sprintf(format, args...)})
		}
		switch {
		case most == 0 && n > maxLines:
			breach("has %d lines: at most %d, so divide it by what its parts mean", n, maxLines)
		case most > 0 && n > most:
			breach("has %d lines: it had %d, and may only get smaller", n, most)
		case most > 0 && n <= maxLines:
			breach("has %d lines: take it off the list of larger packages", n)
		}
	}
	return breaches
}
