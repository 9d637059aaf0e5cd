// Program faults plays faults against weir, in network namespaces that end with it, and compares what follows with what the
// docs state. It writes the table of docs/faults.md, if it has played all faults.
//
//	make faults                              # all faults, five seeds
//	make faults ARGS='-run peers -seeds 1'   # those with a name, once; the table is printed
//
// It needs Linux, a user that may create network namespaces, and ip, strace, cc, redis-server and Envoy. Each play is a
// process with its own namespaces, so nothing is left when it ends.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A setup has the files that all plays need.
type setup struct {
	weir     string // the binary
	released string // the binary of the release before
	clock    string // a library that sets the clock of a server
	stepped  string // the binary with a clock that can be set: see buildStepped
}

func main() {
	log.SetFlags(log.Ltime)
	var s setup
	flag.StringVar(&s.weir, "weir", "../../bin/weir", "the binary of weir")
	flag.StringVar(&s.released, "released", "", "the binary of the release before; it is built if this is empty")
	run := flag.String("run", "", "only the faults whose family and name, such as \"peers: kill -9\", match this expression")
	seeds := flag.Int("seeds", 5, "how often each fault is played: with the seeds 1, 2, …")
	atOnce := flag.Int("at-once", 3, "the number of plays at the same time")
	page := flag.String("page", "../../docs/faults.md", "the page that gets the table, if all faults are played")
	flag.StringVar(&s.clock, "clock", "", "for a play: the library of the clock")
	flag.StringVar(&s.stepped, "stepped", "", "the binary with a clock that can be set; it is built if this is empty")
	play := flag.String("play", "", "for a play: the fault")
	seed := flag.Uint64("seed", 1, "for a play: the seed")
	listen := flag.String("listen", "", "be a server at this address: a leaf, or an origin")
	upstream := flag.String("leaf", "", "be a leaf of this upstream")
	flag.Parse()
	switch {
	case *upstream != "":
		log.Fatal(serveLeaf(*listen, *upstream))
	case *listen != "":
		log.Fatal(serveOrigin(*listen))
	case *play != "":
		if err := s.play(*play, *seed); err != nil {
			log.Fatal(err)
		}
	default:
		if err := s.all(*run, *seeds, *atOnce, *page); err != nil {
			log.Fatal(err)
		}
	}
}

// A row is a fault, and what it does to a family of processes.
type row struct {
	family, fault string
	play          func(w *world)
}

func (r row) name() string { return r.family + ": " + r.fault }

// A measure is a value that a play has measured, and the bound that the docs state.
type measure struct {
	What   string
	Value  float64
	Bound  float64
	Stated string // how the bound follows from the docs
	Link   string // the section that states it
	Unit   string
	Such   []string // some of the answers that are counted
}

func (m measure) holds() bool { return m.Value <= m.Bound }

func rows() []row {
	return slices.Concat(memoryRows, memoryClockRows, storeRows, storeClockRows, peerRows, peerClockRows, tierRows, leafRows, grpcRows, rlqsRows, proxyRows)
}

// all plays the rows that match an expression, and writes or prints the table.
func (s *setup) all(expression string, seeds, atOnce int, page string) error {
	match, err := regexp.Compile(expression)
	if err != nil {
		return err
	}
	var selected []row
	for _, r := range rows() {
		if match.MatchString(r.name()) {
			selected = append(selected, r)
		}
	}
	if len(selected) == 0 {
		return fmt.Errorf("no fault matches %q", expression)
	}
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if s.weir, err = filepath.Abs(s.weir); err != nil {
		return err
	}
	if s.released == "" {
		log.Print("building the release before")
		if err := s.build(dir); err != nil {
			return err
		}
	}
	if s.stepped == "" && slices.ContainsFunc(selected, func(r row) bool { return strings.Contains(r.fault, "the clock") }) {
		log.Print("building weir with a clock that can be set")
		if err := s.buildStepped(dir); err != nil {
			return err
		}
	}
	s.clock = filepath.Join(dir, "clock.so")
	if out, err := exec.Command("cc", "-O1", "-shared", "-fPIC", "-o", s.clock, "../../internal/redistest/testdata/clock.c").CombinedOutput(); err != nil {
		return fmt.Errorf("cc: %w: %s", err, out)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	t, err := s.plays(ctx, selected, seeds, atOnce)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	t.write(&text)
	if expression == "" {
		if err := replaceTable(page, text.String()); err != nil {
			return err
		}
		log.Printf("%s is written", page)
	} else {
		fmt.Print(text.String())
	}
	return t.verdict()
}

// release is the commit of the release before this version.
const release = "f6d7ae14"

// build builds the binary of the release before.
func (s *setup) build(dir string) error {
	s.released = filepath.Join(dir, "weir-"+release)
	script := fmt.Sprintf("mkdir %[1]s/source && git -C ../.. archive %[2]s | tar -x -C %[1]s/source && go build -C %[1]s/source/service -o %[3]s ./cmd/weir", dir, release, s.released)
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		return fmt.Errorf("the release before, which takes a clone with the whole history: %w: %s", err, out)
	}
	return nil
}

// plays plays each row with each seed.
func (s *setup) plays(ctx context.Context, selected []row, seeds, atOnce int) (*table, error) {
	t := &table{rows: selected, seeds: seeds, results: make([][]measure, len(selected))}
	var (
		mu     sync.Mutex // guards t, done and failed
		done   int
		failed error
		group  sync.WaitGroup
	)
	began, places := time.Now(), make(chan struct{}, atOnce)
	for seed := range seeds {
		for i, r := range selected {
			places <- struct{}{}
			group.Go(func() {
				defer func() { <-places }()
				if ctx.Err() != nil {
					return
				}
				got, err := s.isolate(ctx, r.name(), seed+1)
				mu.Lock()
				defer mu.Unlock()
				done++
				if err != nil {
					failed = errors.Join(failed, fmt.Errorf("%s, seed %d: %w", r.name(), seed+1, err))
					log.Printf("%d/%d %s, seed %d: %v", done, seeds*len(selected), r.name(), seed+1, err)
					return
				}
				t.add(i, got)
				log.Printf("%d/%d %s, seed %d: %s (%v)", done, seeds*len(selected), r.name(), seed+1, brief(got), time.Since(began).Round(time.Second))
			})
		}
	}
	group.Wait()
	return t, errors.Join(failed, ctx.Err())
}

func brief(got []measure) string {
	var all []string
	for _, m := range got {
		mark := ""
		if !m.holds() {
			mark = fmt.Sprintf(" BEYOND %q", m.Such)
		}
		all = append(all, fmt.Sprintf("%s %.4g of %.4g%s%s", m.What, m.Value, m.Bound, m.Unit, mark))
	}
	return strings.Join(all, "; ")
}

// isolate plays a row in a process that has its own namespaces for networks, mounts and processes, and one for users
// unless this user is root.
func (s *setup) isolate(ctx context.Context, name string, seed int) ([]measure, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-weir", s.weir, "-released", s.released, "-clock", s.clock, "-stepped", s.stepped, "-play", name, "-seed", fmt.Sprint(seed))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if id := os.Getuid(); id != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: id, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, &errs)
	}
	var got []measure
	return got, json.Unmarshal(out.Bytes(), &got)
}

// play plays a row in this process, and prints what it has measured.
func (s *setup) play(name string, seed uint64) error {
	i := slices.IndexFunc(rows(), func(r row) bool { return r.name() == name })
	if i < 0 {
		return fmt.Errorf("there is no fault %q", name)
	}
	w, err := newWorld(s, seed)
	if err != nil {
		return err
	}
	defer w.close()
	rows()[i].play(w)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	return json.NewEncoder(out).Encode(w.measures)
}
