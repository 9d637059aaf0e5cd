package floors

import (
	"go/ast"
	"go/token"
	"slices"
)

// clocks are the names of package time that read a clock or wait for one.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Timer", "Ticker"}

// sources are the names of the math/rand packages that do not draw from the
// global source.
var sources = []string{"New", "NewPCG", "NewChaCha8", "NewSource", "NewZipf", "Rand", "PCG", "ChaCha8", "Source", "Source64", "Zipf"}

// checkPurity reports goroutines, clocks and global chance.
func (c *checker) checkPurity(file *ast.File) {
	for _, i := range file.Imports {
		if p := i.Path.Value; i.Name != nil && slices.Contains([]string{`"time"`, `"math/rand"`, `"math/rand/v2"`}, p) {
			c.breach(i.Pos(), "imports %s under another name, which hides its clocks and chances", p)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			c.breach(n.Pos(), "starts a goroutine in pure code")
		case *ast.SelectorExpr:
			switch x, ok := n.X.(*ast.Ident); {
			case !ok:
			case x.Name == "time" && slices.Contains(clocks, n.Sel.Name):
				c.breach(n.Pos(), "uses time.%s in pure code: take now as an argument", n.Sel.Name)
			case x.Name == "rand" && !slices.Contains(sources, n.Sel.Name):
				c.breach(n.Pos(), "uses the global source rand.%s in pure code: take a *rand.Rand", n.Sel.Name)
			}
		}
		return true
	})
}

// wallClock lists the packages up to the server's core that read the wall clock, and what
// for. What has no part in that goes on as before if the clock of the computer is set.
var wallClock = map[string]string{
	"internal/waitq":                   "the instants of snapshots and of calendars",
	"inflight":                         "the slots that instances raise their limits in",
	"internal/blockfile":               "the instant from which those of a file count",
	"service/internal/decisionlog":     "the instant from which those of a recording count",
	"httplimit":                        "X-RateLimit-Reset",
	"service/internal/rulefile":        "the times of files, to compare them",
	"service/internal/server/snapshot": "the instants of snapshots",
	"service/internal/server/away":     "fencing tokens that are greater than those of a store or an upstream",
	"service/internal/server/store":    "the instants of grants, which every node settles",
	"service/internal/server/grant":    "the instants of grants that other nodes settle",
	"service/internal/server/lease":    "the first fencing token",
}

// wallTimes are the methods of a time.Time that leave out its monotonic reading.
var wallTimes = []string{"Unix", "UnixMilli", "UnixMicro", "UnixNano"}

// checkWall reports readings of the wall clock.
func (c *checker) checkWall(file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) > 0 {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(wallTimes, f.Sel.Name) && wallClock[c.pkg] == "" {
			c.breach(f.Pos(), "reads the wall clock by %s: setting the clock must change nothing", f.Sel.Name)
		}
		return true
	})
}

// checkGlobals reports what works behind the user's back, or breaks virtual
// time: init functions, and pools, channels and timers of the whole package.
func (c *checker) checkGlobals(file *ast.File) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				c.breach(d.Pos(), "has an init function")
			}
		case *ast.GenDecl:
			if d.Tok == token.VAR {
				c.checkVar(d)
			}
		}
	}
}

func (c *checker) checkVar(d *ast.GenDecl) {
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ChanType:
			c.breach(n.Pos(), "has a channel of the whole package")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains([]string{"sync.Pool", "time.Timer", "time.Ticker",
				"time.NewTimer", "time.NewTicker", "time.Now"}, x.Name+"."+n.Sel.Name) {
				c.breach(n.Pos(), "has a %s of the whole package", x.Name+"."+n.Sel.Name)
			}
		}
		return true
	})
}
