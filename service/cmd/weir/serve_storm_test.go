//go:build system

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/service/internal/rulefile"
)

// The number of requested reloads, and of automatic ones after them.
const (
	storms  = 1000
	watched = 20
)

// mountedRules are rules as mounted by Kubernetes: a link to a directory that is
// replaced.
type mountedRules struct {
	dir     string
	version int
}

// write replaces the text: by another directory behind the link, or in the file itself.
func (m *mountedRules) write(text string, swap bool) error {
	if !swap {
		return os.WriteFile(filepath.Join(m.dir, "..data", "rules.yaml"), []byte(text), 0o600)
	}
	m.version++
	next := fmt.Sprintf("..%d", m.version)
	data := filepath.Join(m.dir, "..data")
	old, _ := os.Readlink(data)
	for _, step := range []func() error{
		func() error { return os.Mkdir(filepath.Join(m.dir, next), 0o700) },
		func() error { return os.WriteFile(filepath.Join(m.dir, next, "rules.yaml"), []byte(text), 0o600) },
		func() error { return os.Symlink(next, data+".new") },
		func() error { return os.Rename(data+".new", data) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if old == "" {
		return os.Symlink("..data/rules.yaml", filepath.Join(m.dir, "rules.yaml"))
	}
	return os.RemoveAll(filepath.Join(m.dir, old))
}

// stormRules returns the ith version of the rules. The rules of the test are always
// there, among different others.
func stormRules(i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %d\nrules:\n", i)
	for n := range i % 5 {
		fmt.Fprintf(&b, "  - {name: extra %d, glob: \"extra%d:*\", rate: %d/s}\n", n, n, i+1)
	}
	fmt.Fprintf(&b, "  - {name: gcra, key: gcra, rate: 50/d, queue: %d}\n", i%7)
	fmt.Fprintf(&b, "  - {name: fixed, key: fixed, rate: 50/d, algorithm: fixed}\n")
	fmt.Fprintf(&b, "  - {name: line, key: line, rate: %d/s, queue: 100}\n", 1000+i%3)
	fmt.Fprintf(&b, "  - {name: rest, glob: \"*\", rate: 1000000/s, burst: %d}\n", 1000+i)
	return b.String()
}

// A thousand reloads under load, one in ten of an invalid file: no request is lost, no
// bucket is refilled, and the last valid rules stay in force.
func TestReloadStorm(t *testing.T) {
	m := &mountedRules{dir: t.TempDir()}
	fatal(t, m.write(stormRules(0), true))
	s := serving(t, "--rules", filepath.Join(m.dir, "rules.yaml"), "--watch-interval", "1h")

	var stop atomic.Bool
	var clients sync.WaitGroup
	admitted := map[string]*atomic.Int64{"gcra": {}, "fixed": {}, "line?canWait=true": {}, "other": {}}
	for key, n := range admitted {
		clients.Go(func() {
			for asked := 0; !stop.Load(); asked++ {
				switch a, err := tryAsk(http.DefaultClient, "POST", s.public+"/rate/"+key); {
				case err != nil:
					t.Errorf("%s: request %d: %v", key, asked, err)
					return
				case a.status == 200:
					n.Add(1)
				case a.status != 429:
					t.Errorf("%s: request %d: %v", key, asked, a)
					return
				}
			}
		})
	}

	good := rulefile.Hash([]byte(stormRules(0)))
	for i := 1; i <= storms; i++ {
		text, want := stormRules(i), 200
		if i%10 == 0 {
			text, want = text+"  - {name: gcra, rate: 1/s}\n", 422
		} else {
			good = rulefile.Hash([]byte(text))
		}
		fatal(t, m.write(text, i%4 == 0))
		if a := s.reload(); a.status != want {
			t.Fatalf("reload %d: %v: want %d", i, a, want)
		}
		if got := s.status().Config.Hash; got != good {
			t.Fatalf("reload %d: rules %s are in force: want %s", i, got, good)
		}
	}
	for i := storms + 1; i <= storms+watched; i++ {
		fatal(t, m.write(stormRules(i), i%2 == 0))
		s.until("hash=" + rulefile.Hash([]byte(stormRules(i))))
	}
	stop.Store(true)
	clients.Wait()

	for key, n := range admitted {
		switch got := n.Load(); {
		case key == "gcra" || key == "fixed":
			if got != 50 {
				t.Errorf("%s: %d admitted: want 50 a day", key, got)
			}
		case got == 0:
			t.Errorf("%s: nothing admitted", key)
		}
	}
	s.end()
}
