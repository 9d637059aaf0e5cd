package main

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"
)

const (
	ofCrash      = "serve-guarantees.md#a-crash"
	ofGuarantees = "serve-guarantees.md"
	ofUpgrades   = "upgrade.md"
)

// excess notes the tokens that were granted beyond the rate, and their bound.
func (w *world) excess(all answers, bound float64, stated, link string) {
	w.measures = append(w.measures, measure{What: "tokens beyond *rt*", Value: all.excess(rate), Bound: bound, Stated: stated, Link: link})
}

// none notes answers of which there must be none.
func (w *world) none(what string, some answers, stated, link string) {
	m := measure{What: what, Value: float64(len(some)), Stated: stated, Link: link}
	for _, a := range some[:min(len(some), 5)] {
		m.Such = append(m.Such, fmt.Sprintf("asked %d at %v, answered after %v: %v", a.target, a.asked, a.took, a.err))
	}
	w.measures = append(w.measures, m)
}

// held notes the most units that were held at a time.
func (w *world) held(h *holders, bound float64, stated, link string) {
	w.measures = append(w.measures, measure{What: "units held at once", Value: h.stop(), Bound: bound, Stated: stated, Link: link})
}

// late notes by how much answers of a span of time took longer than the longest of the control, for 99 of 100.
func (w *world) late(all answers, from, to time.Duration, bound time.Duration, stated, link string) {
	beyond := all.between(from, to).quantile(0.99) - w.control.sofar().between(from, to).quantile(1)
	w.measures = append(w.measures, measure{What: "P99 beyond the control's longest", Value: max(0, beyond), Bound: bound.Seconds() * 1000, Stated: stated, Link: link, Unit: "ms"})
}

// degraded checks that a fault has an effect: some answers are not exact.
func degraded(all answers) {
	for _, a := range all {
		if a.step != "" {
			return
		}
	}
	check(errors.New("the fault has no effect: all answers are exact"))
}

// startLoad starts a load, and a control beside it: a caller of a weir serve that has no fault.
func (w *world) startLoad(targets, callers int, ask asker) *load {
	beside := w.host().serve("--rules", w.file("control.yaml", rules(""))).untilReady()
	w.control = startLoad(1, 1, w.tokens("k", beside))
	return startLoad(targets, callers, ask)
}

// memory starts a weir serve with its counts in memory, and its state in a directory.
func (w *world) memory(dir string, before ...string) *proc {
	h := w.host()
	args := append(before, w.weir, "serve", "--listen", h.ip+":8080", "--admin", h.ip+":8081", "--rules", w.file("rules.yaml", rules("")),
		"--state", filepath.Join(dir, "state"), "--state-interval", "1s")
	return h.start(8080, args...).untilReady()
}

var memoryRows = []row{
	{"memory", "kill -9, and a start", func(w *world) {
		p := w.memory(w.dir)
		l, h := startLoad(1, 4, w.tokens("k", p)), w.hold("slots", 12, p)
		time.Sleep(200*time.Millisecond + time.Duration(w.random.Int64N(int64(2*time.Second))))
		p.kill()
		w.pause(300 * time.Millisecond)
		p.again()
		from := l.now()
		w.pause(3 * time.Second)
		all := l.stop()
		w.excess(all, burst+burst, "*b* + *b*, used since the last save", ofCrash)
		w.none("requests without a decision, after the start", all.between(from, l.now()).failures(), "it decides", ofCrash)
		w.held(h, units, "the limit", ofCrash)
		w.wholeAgain(p, ttl, "the units are free after `max_ttl`", ofCrash)
	}},
	{"memory", "SIGTERM, and a start", func(w *world) {
		p := w.memory(w.dir)
		l, h := startLoad(1, 4, w.tokens("k", p)), w.hold("slots", 12, p)
		w.pause(2 * time.Second)
		p.end()
		p.again()
		w.pause(3 * time.Second)
		w.excess(l.stop(), burst, "*b*: counts are saved when it ends", ofCrash)
		w.held(h, units, "the limit", ofCrash)
	}},
	{"memory", "versions that differ: a start as the release before, and back", func(w *world) {
		p := w.memory(w.dir)
		l, h := startLoad(1, 4, w.tokens("k", p)), w.hold("slots", 12, p)
		w.pause(2 * time.Second)
		p.restart(w.released)
		w.pause(2 * time.Second)
		p.restart(w.weir)
		w.pause(2 * time.Second)
		w.excess(l.stop(), burst, "*b*: no key gets its tokens again", ofUpgrades)
		w.held(h, units, "the limit", ofUpgrades)
	}},
	{"memory", "SIGSTOP for 3 s", func(w *world) {
		p := w.memory(w.dir)
		l, h := startLoad(1, 4, w.tokens("k", p)), w.hold("slots", 12, p)
		w.pause(2 * time.Second)
		p.stop()
		time.Sleep(3 * time.Second)
		p.cont()
		from := l.now()
		w.pause(3 * time.Second)
		all := l.stop()
		w.excess(all, burst, "*b*: a stall gives nothing", ofGuarantees)
		w.none("requests without a decision, from its end on", all.between(from, l.now()).failures(), "it decides", ofGuarantees)
		w.held(h, units, "the limit", ofGuarantees)
	}},
	{"memory", "a holder vanishes, and its half-open connection stays", func(w *world) {
		p := w.memory(w.dir)
		w.startLoad(0, 0, nil)
		resp, err := w.client.Post(fmt.Sprintf("%s/lease/slots?n=%d", p.url(), units), "", nil)
		check(err)
		sent := time.Now()
		other := w.newClient()
		until("all units are free", func() bool {
			resp, err := other.Post(fmt.Sprintf("%s/lease/slots?n=%d", p.url(), units), "", nil)
			check(err)
			check(resp.Body.Close())
			return resp.StatusCode == http.StatusOK
		})
		free := time.Since(sent)
		check(resp.Body.Close())
		w.measures = append(w.measures, measure{What: "until its units are free", Value: free.Seconds()*1000 - w.control.sofar().quantile(1), Bound: (ttl + 50*time.Millisecond).Seconds() * 1000,
			Stated: "`ttl`, and 50 ms until the next try, beyond the control's longest", Link: ofGuarantees, Unit: "ms"})
	}},
	{"memory", "full disk for the state, then kill -9", func(w *world) {
		disk := w.disk("disk", "1m")
		p := w.memory(disk)
		l := startLoad(1, 4, w.tokens("k", p))
		w.pause(2 * time.Second)
		free := fill(disk)
		until("a save fails", func() bool { return p.metric("weir_state_save_failures_total") > 0 })
		full := l.now()
		w.pause(2 * time.Second)
		w.none("requests without a decision, while it is full", l.sofar().between(full, l.now()).failures(), "it goes on", ofCrash)
		p.kill()
		free()
		p.again()
		w.pause(3 * time.Second)
		w.excess(l.stop(), burst+burst, "*b* + *b*, used since the last good save", ofCrash)
	}},
	{"memory", "slow disk: each fsync of the state takes 1 s", func(w *world) {
		p := w.memory(w.dir, "strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=fsync", "-e", "signal=none", "-e", "inject=fsync:delay_enter=1000000", "-o", "/dev/null")
		l := startLoad(1, 4, w.tokens("k", p))
		w.pause(5 * time.Second)
		all := l.stop()
		var slow answers
		for _, a := range all {
			if a.took > 900*time.Millisecond {
				slow = append(slow, a)
			}
		}
		w.none("requests that take 0.9 s", slow, "decisions do not wait for the disk", ofCrash)
		w.none("requests without a decision", all.failures(), "it goes on", ofCrash)
		until("it has saved", func() bool { return p.metric("weir_state_last_save_timestamp_seconds") > 0 })
		w.excess(all, burst, "*b*", ofGuarantees)
	}},
}

// wholeAgain notes whether a request gets all units of a key once the longest leases must have ended.
func (w *world) wholeAgain(p *proc, after time.Duration, stated, link string) {
	time.Sleep(after + 100*time.Millisecond)
	lost := 0.0
	resp, err := w.client.Post(fmt.Sprintf("%s/lease/slots?n=%d", p.url(), units), "", nil)
	check(err)
	if resp.StatusCode != http.StatusOK {
		lost = units
	}
	check(resp.Body.Close())
	w.measures = append(w.measures, measure{What: "units lost", Value: lost, Stated: stated, Link: link})
}
