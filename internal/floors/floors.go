// Package floors checks the layout of ARCHITECTURE.md on the source itself:
// imports go downwards only, and the pure floors stay pure.
package floors

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Module is the path that our own imports begin with.
const Module = "github.com/weir-go/weir"

// A floor is where a package stands. Higher ones import lower ones.
type floor int

const (
	words  floor = iota // F0
	pure                // F1
	shells              // F2
	edges               // F3
	lab                 // F4
	binary              // F5
)

// packages is the floor of each package of the module. One that is missing
// here is an error: somebody has to say where it stands.
var packages = map[string]floor{
	"":     words,
	"gcra": pure, "window": pure, "limit": pure, "codel": pure, "gate": pure, "throttle": pure,
	"lab/pace": pure, "lab/trace": pure, "lab/dist": pure,
	"rate": shells, "inflight": shells, "flight": shells, "cache": shells, "keyed": shells, "shape": shells,
	"throttler": shells, "tally": shells,
	"internal/line": shells, "internal/siphash": shells, "internal/heavy": shells,
	"httplimit": edges, "grpclimit": edges, "config": edges, "server": edges, "server/httpapi": edges,
	"server/token": edges, "server/respapi": edges, "server/grpcapi": edges, "server/adminapi": edges, "store": edges, "store/redis": edges, "cluster": edges,
	"client": edges, "proxy": edges, "internal/settings": edges,
	"httpcache": edges, "internal/problem": edges, "internal/loadsign": edges, "internal/longlived": edges, "internal/observe": edges, "internal/admission": edges, "internal/caller": edges,
	"metric": edges, "internal/outgoing": edges, "internal/ratelimitfield": edges, "internal/match": edges, "internal/strictyaml": edges,
	"web": lab, "lab/origin": lab, "lab/load": lab, "lab/sim": lab, "lab/plot": lab, "lab/scenario": lab,
	"lab/arena": lab, "lab/sla": lab, "scenarios": lab,
	"lab/demo": lab, "internal/browser": lab, "internal/clienttest": lab, "internal/floors": lab,
	"cmd/weir":       binary,
	"examples/fleet": binary, "examples/migrate": binary, "examples/slowlink": binary, "examples/peruser": binary, "examples/expensive": binary,
}

// sideways are the imports within a floor, or from the lab to the edges, that
// are allowed all the same.
var sideways = map[string][]string{
	"gate":             {"limit", "codel"},
	"cache":            {"flight"},
	"rate":             {"internal/line"},
	"keyed":            {"internal/line", "internal/siphash", "internal/heavy"},
	"tally":            {"internal/line", "internal/siphash", "internal/heavy"},
	"config":           {"internal/match", "internal/strictyaml"},
	"server":           {"config", "internal/match"},
	"server/httpapi":   {"server", "config", "internal/problem", "internal/ratelimitfield"},
	"client":           {"server/httpapi"},
	"server/token":     {"internal/match", "internal/strictyaml"},
	"server/respapi":   {"server"},
	"server/grpcapi":   {"server"},
	"httplimit":        {"internal/loadsign", "internal/longlived", "internal/problem", "internal/observe", "internal/admission", "internal/caller", "internal/ratelimitfield"},
	"httpcache":        {"internal/observe", "httplimit"},
	"internal/observe": {"internal/loadsign", "internal/longlived"},
	"grpclimit":        {"internal/loadsign", "internal/admission", "internal/caller", "internal/outgoing"},
	"metric":           {"internal/admission", "internal/outgoing", "httplimit", "httpcache", "server"},
	"proxy":            {"httplimit", "internal/loadsign", "internal/longlived", "internal/problem", "internal/settings"},
	"lab/origin":       {"internal/settings"},
	"lab/load":         {"lab/pace", "lab/trace"},
	"lab/scenario":     {"lab/sim", "internal/strictyaml"},
	"lab/plot":         {"lab/sim"},
	"lab/arena":        {"lab/sim", "lab/plot", "lab/scenario", "scenarios"},
	// The experiment has the middleware among its rows, as people use it.
	"lab/sla": {"httplimit", "internal/admission", "lab/load", "lab/sim", "lab/plot"},
	// The demonstration shows the proxy itself, on the page.
	"lab/demo": {"proxy", "web", "internal/settings", "internal/browser", "lab/origin", "lab/load"},
	// The page of weir serve has assets in common with that of weir demo.
	"server/adminapi": {"server", "config", "web"},
}

// banned are the packages of the standard library, with all below them, that a
// floor does without.
var banned = map[floor][]string{
	words:  {"sync", "net", "os", "log"},
	pure:   {"sync", "context", "net", "os", "log", "runtime", "syscall", "crypto/rand"},
	shells: {"net/http", "os", "log"},
}

// bannedHere are those that one package does without, besides its floor's.
var bannedHere = map[string][]string{
	"server":  {"net"},
	"lab/sim": {"sync"},
}

// A File is one file of Go source, named from the module's root.
type File struct{ Name, Source string }

// A Breach is a rule that a file breaks.
type Breach struct {
	At   token.Position
	What string
}

func (b Breach) String() string {
	return fmt.Sprintf("%s:%d: %s", b.At.Filename, b.At.Line, b.What)
}

// Check returns what breaks the rules, in order of place. Files that do not
// parse are an error.
func Check(files []File) ([]Breach, error) {
	c := checker{fset: token.NewFileSet()}
	for _, f := range files {
		if err := c.check(f); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(c.breaches, func(a, b Breach) int {
		return cmp.Or(cmp.Compare(a.At.Filename, b.At.Filename), cmp.Compare(a.At.Offset, b.At.Offset))
	})
	return c.breaches, nil
}

type checker struct {
	fset     *token.FileSet
	breaches []Breach

	// Of the file at hand.
	pkg    string
	floor  floor
	tested bool // it is a test
}

func (c *checker) breach(at token.Pos, format string, args ...any) {
	c.breaches = append(c.breaches, Breach{c.fset.Position(at), fmt.Sprintf(format, args...)})
}

func (c *checker) check(f File) error {
	file, err := parser.ParseFile(c.fset, f.Name, f.Source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	c.pkg = strings.TrimPrefix(path.Dir(f.Name), ".")
	c.tested = strings.HasSuffix(f.Name, "_test.go")
	var known bool
	if c.floor, known = packages[c.pkg]; !known {
		c.breach(file.Package, "package %q is on no floor: add it to internal/floors", c.pkg)
		return nil
	}
	for _, i := range file.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		c.checkImport(i, name)
	}
	if !c.tested && (c.floor == pure || c.pkg == "lab/sim") {
		c.checkPurity(file)
	}
	if !c.tested && c.floor <= shells {
		c.checkGlobals(file)
	}
	return nil
}

func (c *checker) checkImport(i *ast.ImportSpec, name string) {
	first, _, _ := strings.Cut(name, "/")
	own, ours := strings.CutPrefix(name, Module)
	switch {
	case ours && (own == "" || own[0] == '/'):
		if !c.tested {
			c.checkOurs(i, strings.TrimPrefix(own, "/"))
		}
	case strings.Contains(first, "."):
		if c.floor <= shells {
			c.breach(i.Pos(), "imports %s: the library uses the standard library only", name)
		}
	case !c.tested:
		for _, b := range slices.Concat(banned[c.floor], bannedHere[c.pkg]) {
			if name == b || strings.HasPrefix(name, b+"/") {
				c.breach(i.Pos(), "imports %s, which its floor does without", name)
			}
		}
	}
}

func (c *checker) checkOurs(i *ast.ImportSpec, imported string) {
	below, known := packages[imported]
	switch {
	case !known, slices.Contains(sideways[c.pkg], imported):
	case below >= c.floor && c.floor != binary:
		c.breach(i.Pos(), "imports %s, which is not below it", imported)
	case below == edges && c.floor == lab:
		c.breach(i.Pos(), "imports %s: the lab stands on the library, not on the edges", imported)
	}
}
