package main

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const ofClock = "serve-guarantees.md#a-crash"

// stepped is a file of package time, whose clock is ahead by what a file says. Each process has its own file.
//
//go:embed testdata/stepped.go.txt
var stepped []byte

// buildStepped builds weir with a clock that can be set: network namespaces have no clock of their own.
func (s *setup) buildStepped(dir string) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	of := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	now, err := os.ReadFile(filepath.Join(of, "time.go"))
	if err != nil {
		return err
	}
	const read = "\tsec, nsec, mono := runtimeNow()\n"
	if bytes.Count(now, []byte(read)) != 1 {
		return fmt.Errorf("package time of this Go does not read its clock by %q", read)
	}
	files := map[string][]byte{"time.go": bytes.Replace(now, []byte(read), []byte(read+"\tsec += stepped()\n"), 1), "stepped.go": stepped}
	replace := map[string]string{}
	for name, text := range files {
		replace[filepath.Join(of, name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return err
	}
	s.stepped = filepath.Join(dir, "weir-stepped")
	cmd := exec.Command("go", "build", "-C", "..", "-pgo=off", "-overlay", overlay, "-o", s.stepped, "./cmd/weir")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("weir with a clock that can be set: %w: %s", err, out)
	}
	return nil
}

// stepping has all processes of weir run with a clock that can be set.
func (w *world) stepping() *world {
	s := *w.setup
	s.weir = s.stepped
	w.setup = &s
	return w
}

// clock is the path of the file with the seconds by which the clock of a host is ahead.
func (h *host) clock() string { return filepath.Join("/run", "clock-"+h.name) }

// set sets the clock of a host.
func (h *host) set(ahead time.Duration) {
	f, err := os.OpenFile(h.clock(), os.O_WRONLY|os.O_CREATE, 0o600) // in place: processes map it
	check(err)
	_, err = f.Write(binary.NativeEndian.AppendUint64(nil, uint64(ahead/time.Second)))
	check(errors.Join(err, f.Close()))
}

// step sets the clock of the host of a process, which then tells the time by it.
func (p *proc) step(ahead time.Duration) {
	p.h.set(ahead)
	resp, err := p.h.w.newClient().Get(p.url() + "/")
	check(err)
	check(resp.Body.Close())
	tells, err := http.ParseTime(resp.Header.Get("Date"))
	check(err)
	if off := time.Until(tells) - ahead; off.Abs() > time.Minute {
		check(fmt.Errorf("the clock is %v ahead, want %v", time.Until(tells), ahead))
	}
}

// steps sets the clock of a host an hour ahead, two hours back, and right.
func (p *proc) steps() {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
		p.step(ahead)
		time.Sleep(time.Second)
	}
}

const stepsOfClock = "the clock steps an hour ahead, two hours back, and an hour ahead"

var memoryClockRows = []row{
	{"memory", stepsOfClock, func(w *world) {
		p := w.stepping().memory(w.dir)
		l, h := startLoad(1, 4, w.tokens("k", p)), w.hold("slots", 12, p)
		w.pause(2 * time.Second)
		p.steps()
		w.pause(time.Second)
		all := l.stop()
		w.excess(all, burst, "*b*: a running server does not heed the clock", ofClock)
		w.none("requests without a decision", all.failures(), "it decides", ofClock)
		w.held(h, units, "the limit", ofClock)
	}},
	{"memory", "kill -9, and a start with the clock an hour ahead", func(w *world) {
		p := w.stepping().memory(w.dir)
		l, h := startLoad(1, 4, w.tokens("k", p)), w.hold("slots", 12, p)
		w.pause(2 * time.Second)
		p.kill()
		p.h.set(time.Hour)
		p.again()
		from := l.now()
		w.pause(2 * time.Second)
		all := l.stop()
		w.excess(all, burst+burst, "*b* + *b*: the buckets of the start are full", ofClock)
		w.none("requests without a decision, after the start", all.between(from, l.now()).failures(), "it decides", ofClock)
		w.held(h, units, "the limit", ofClock)
	}},
}

var storeClockRows = []row{{"store", "an instance: " + stepsOfClock, func(w *world) { playInstance(w.stepping(), (*proc).steps) }}}

var peerClockRows = []row{{"peers", "the owner: " + stepsOfClock, func(w *world) {
	f := w.stepping().fleet()
	l, h := w.startLoad(members, 2, w.tokens(f.key, f.members...)), w.hold(f.ownedBy(f.members[0], "slots"), 7, f.members...)
	w.pause(2 * time.Second)
	from := l.now()
	f.members[0].steps()
	w.pause(time.Second)
	all := l.stop()
	w.excess(all, burst, "*b*: a running server does not heed the clock", ofClock)
	w.none("requests without a decision", all.failures(), "each member decides", ofPeers)
	w.late(all, from, l.now(), time.Second, "two `--peer-timeout`: for the owner, and for the next one", ofPeers)
	w.held(h, units, "the limit", ofClock)
}}}
