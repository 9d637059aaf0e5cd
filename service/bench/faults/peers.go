package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

const (
	members  = 3
	ofBounds = "../service/internal/ring/doc.go"
	ofPeers  = "scale.md#peers"

	share  = burst/members + rate/members*1.0 // of a member that decides by itself for the second until members agree
	change = burst + rate*0.5                 // of two owners, while members do not yet agree
)

// A fleet is weir serve on three hosts, which share keys.
type fleet struct {
	w       *world
	args    []string // of each member
	members []*proc
	joins   *proc  // a fourth member, whose list the others do not have
	key     string // its owner is the first member
}

func (w *world) fleet() *fleet {
	f := &fleet{w: w}
	rules, secret := w.file("rules.yaml", rules("")), w.file("secret", "a-secret-of-peers-1")
	var hosts []*host
	var urls []string
	for range members {
		h := w.host()
		hosts, urls = append(hosts, h), append(urls, "http://"+h.ip+":8080")
	}
	f.args = []string{"--rules", rules, "--peer-secret-file", secret, "--drain-delay", "500ms"}
	for _, h := range hosts {
		f.members = append(f.members, f.member(h, urls))
	}
	f.untilLive(0, 1, 2)
	w.pause(500 * time.Millisecond)
	f.key = f.ownedBy(f.members[0], "k")
	return f
}

// member starts a member with a list.
func (f *fleet) member(h *host, list []string) *proc {
	p := &proc{h: h, addr: h.ip + ":8080", args: append([]string{f.w.weir, "serve", "--listen", h.ip + ":8080", "--admin", h.ip + ":8081",
		"--peers", strings.Join(list, ","), "--self", "http://" + h.ip + ":8080"}, f.args...)}
	h.processes = append(h.processes, p)
	p.launch()
	return p
}

// statuses returns what a member knows about all, such as "live live dead".
func (f *fleet) statuses(p *proc) string {
	text, err := p.get("/-/status?rules=0")
	if err != nil {
		return err.Error()
	}
	var status struct {
		Peers struct {
			Members []struct{ Name, Status string }
		}
	}
	check(json.Unmarshal([]byte(text), &status))
	var all []string
	for _, m := range f.members {
		for _, known := range status.Peers.Members {
			if known.Name == m.url() {
				all = append(all, known.Status)
			}
		}
	}
	return strings.Join(all, " ")
}

// untilLive waits until some members know that all are live.
func (f *fleet) untilLive(which ...int) {
	until("all members are live", func() bool {
		for _, i := range which {
			if f.statuses(f.members[i]) != "live live live" {
				return false
			}
		}
		return true
	})
}

// ownedBy returns a key that a member owns: it forwards no request for it.
func (f *fleet) ownedBy(p *proc, prefix string) string {
	from := f.w.random.IntN(1000)
	for n := range 100 {
		key := fmt.Sprint(prefix, from+n)
		before := p.metric("weir_peer_forwarded_total")
		resp, err := f.w.client.Post(p.url()+"/rate/"+key+"?n=0", "", nil)
		check(err)
		check(resp.Body.Close())
		if p.metric("weir_peer_forwarded_total") == before {
			return key
		}
	}
	check(fmt.Errorf("%s owns no key of 100", p.addr))
	return ""
}

// A peerFault happens to the owner of a key, the first member.
type peerFault struct {
	name       string
	begin, end func(f *fleet)
	beyond     float64 // beyond the burst
	stated     string
	away       bool // the owner gives no decision meanwhile
	cutOff     int  // members that cannot ask an owner
	twoOwners  bool // an owner goes on that does not know that it is none any more
}

var peerFaults = []peerFault{
	{name: "kill -9 of the owner", begin: func(f *fleet) { f.members[0].kill() }, end: func(*fleet) {},
		beyond: burst + 2*share, stated: "*b* + *b* + (*N* − 1)(*b* + *r* · 1 s)/*N*", away: true, cutOff: 2},
	{name: "kill -9 of the owner, and a start", begin: func(f *fleet) { f.members[0].kill() }, end: func(f *fleet) { f.members[0].again(); f.untilLive(0, 1, 2) },
		beyond: burst + 2*share + change, stated: "*b* + *b* + (*N* − 1)(*b* + *r* · 1 s)/*N* + *b* + *r* · 0.5 s", away: true, cutOff: 3},
	{name: "SIGTERM of the owner, and a start", begin: func(f *fleet) { f.members[0].end() }, end: func(f *fleet) { f.members[0].again(); f.untilLive(0, 1, 2) },
		beyond: change, stated: "*b* + *b* + *r* · 0.5 s", away: true, cutOff: 3},
	{name: "SIGSTOP of the owner", begin: func(f *fleet) { f.members[0].stop() }, end: func(f *fleet) { f.members[0].cont(); f.untilLive(0, 1, 2) },
		beyond: burst + 3*share, stated: "*b* + *b* + *N*(*b* + *r* · 1 s)/*N*", away: true, cutOff: 2, twoOwners: true},
	{name: "the owner's host vanishes and comes back, half-open connections stay", begin: func(f *fleet) { f.members[0].h.unplug(); f.members[0].kill() },
		end:    func(f *fleet) { f.members[0].launch(); f.members[0].h.plug(); f.untilLive(0, 1, 2) },
		beyond: burst + 2*share + change, stated: "*b* + *b* + (*N* − 1)(*b* + *r* · 1 s)/*N* + *b* + *r* · 0.5 s", away: true, cutOff: 3},
	{name: "silent partition of the owner and one member", begin: func(f *fleet) { cut(f.members[0].h, f.members[1].h) },
		end:    func(f *fleet) { heal(f.members[0].h, f.members[1].h); f.untilLive(0, 1, 2) },
		beyond: (burst + rate*(absence+2*time.Second).Seconds()) / members, stated: "*b* + (*b* + *rA*)/*N*, *A* = 4 s and a second at each end", cutOff: 1},
	{name: "one direction is lost: from the owner to one member", begin: func(f *fleet) { f.members[0].h.deafen(f.members[1].h) },
		end:    func(f *fleet) { f.members[0].h.hear(f.members[1].h); f.untilLive(0, 1, 2) },
		beyond: (burst + rate*(absence+2*time.Second).Seconds()) / members, stated: "*b* + (*b* + *rA*)/*N*, *A* = 4 s and a second at each end", cutOff: 1},
	{name: "silent partition of the owner from both", begin: func(f *fleet) { cut(f.members[0].h, f.members[1].h); cut(f.members[0].h, f.members[2].h) },
		end: func(f *fleet) {
			heal(f.members[0].h, f.members[1].h)
			heal(f.members[0].h, f.members[2].h)
			f.untilLive(0, 1, 2)
		},
		beyond: burst + 2*share + (burst+rate*(absence+2*time.Second).Seconds())/members, stated: "*b* + *b* + (*N* − 1)(*b* + *r* · 1 s)/*N* + (*b* + *rA*)/*N*", cutOff: 3, twoOwners: true},
	{name: "silent partition of each from each", begin: func(f *fleet) { f.each(cut) }, end: func(f *fleet) { f.each(heal); f.untilLive(0, 1, 2) },
		beyond: 2*burst + rate, stated: "*b* + 2*b* + *r* · 1 s", cutOff: 3, twoOwners: true},
	{name: "lists that differ: a fourth member joins and leaves, which the others do not list", begin: func(f *fleet) {
		h, list := f.w.host(), []string{}
		for _, m := range f.members {
			list = append(list, m.url())
		}
		f.joins = f.member(h, append(list, "http://"+h.ip+":8080"))
	}, end: func(f *fleet) { f.joins.end() },
		beyond: 2 * change, stated: "*b* + 2(*b* + *r* · 0.5 s), as members join and leave", cutOff: 3},
	{name: "versions that differ: the owner starts as the release before, and back", begin: func(f *fleet) { f.members[0].restart(f.w.released) },
		end:    func(f *fleet) { f.members[0].restart(f.w.weir); f.untilLive(0, 1, 2) },
		beyond: 2 * change, stated: "*b* + 2(*b* + *r* · 0.5 s), as members leave and join", away: true, cutOff: 3},
	{name: "rotated secret at the owner alone", begin: func(f *fleet) {
		f.members[0].end()
		f.secret("another-secret-of-peers")
		f.members[0].again()
	}, end: func(f *fleet) {
		f.members[0].end()
		f.secret("a-secret-of-peers-1")
		f.members[0].again()
		f.untilLive(0, 1, 2)
	}, beyond: change + (burst+rate*(absence+4*time.Second).Seconds())/members, stated: "*b* + *b* + *r* · 0.5 s + (*b* + *rA*)/*N*", away: true, cutOff: 3},
}

// each does something to each pair of hosts.
func (f *fleet) each(do func(a, b *host)) {
	for i := range f.members {
		do(f.members[i].h, f.members[(i+1)%members].h)
	}
}

// secret changes the secret of the first member, at its next start.
func (f *fleet) secret(text string) {
	args := f.members[0].args
	for i, a := range args {
		if a == "--peer-secret-file" {
			args[i+1] = f.w.file("secret-of-one", text)
		}
	}
}

func peerPlays() (all []row) {
	for _, f := range peerFaults {
		all = append(all, row{"peers", f.name, f.play})
	}
	return all
}

var peerRows = peerPlays()

func (p peerFault) play(w *world) {
	f := w.fleet()
	l, h := w.startLoad(members, 2, w.tokens(f.key, f.members...)), w.hold(f.ownedBy(f.members[0], "slots"), 7, f.members...)
	w.pause(3 * time.Second)
	from := l.now()
	p.begin(f)
	time.Sleep(absence)
	p.end(f)
	w.pause(2 * time.Second)
	all := l.stop()
	w.excess(all, burst+p.beyond, p.stated, ofBounds)
	served := all
	if p.away {
		served = all.of(1, 2)
	}
	w.none("requests without a decision, but at a member that is away", served.failures(), "each member decides", ofPeers)
	w.late(served, from, l.now(), time.Second, "two `--peer-timeout`: for the owner, and for the next one", ofPeers)
	bound, stated := units+float64(p.cutOff)*units/members, fmt.Sprintf("the limit, and %d · limit/*N*", p.cutOff)
	if p.twoOwners {
		bound, stated = bound+units, fmt.Sprintf("the limit of two owners, and %d · limit/*N*", p.cutOff)
	}
	w.held(h, bound, stated, ofBounds)
}
