package daemon

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/discover"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/ring"
	"github.com/weir-go/weir/service/internal/ring/census"
)

// textLog returns a logger without times, and what it has logged since the last call.
func textLog() (*slog.Logger, func() string) {
	text := new(testrig.Buffer)
	return slog.New(slog.NewTextHandler(text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), text.Take
}

// A new member is logged when it is reached, or as cut off after a grace, with the reason. Later changes
// are logged at once.
func TestMemberLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, told := textLog()
		l := newMemberLog(log, "v1")
		want := func(step, text string) {
			t.Helper()
			synctest.Wait()
			if got := strings.TrimSpace(told()); got != text {
				t.Errorf("%s: %s, want %s", step, got, text)
			}
		}
		state := l.link(census.Member{Name: "b"}, func(peer.State) {})
		l.note(ring.Change{Member: "a", Status: census.Cut, Members: 3})
		l.note(ring.Change{Member: "b", Status: census.Cut, Members: 3})
		l.note(ring.Change{Member: "c", Status: census.Cut, Members: 3})
		state(peer.State{Err: &net.OpError{Op: "dial", Err: errors.New("refused")}})
		time.Sleep(firstReach - time.Nanosecond)
		l.note(ring.Change{Member: "a", Known: true, Was: census.Cut, Status: census.Live, Members: 3})
		want("reached", "level=INFO msg=peer peer=a status=live members=3")
		l.note(ring.Change{Member: "c", Known: true, Was: census.Cut, Status: census.Dead, Members: 3})
		l.note(ring.Change{Member: "c", Known: true, Gone: true, Was: census.Dead, Members: 2})
		want("not listed", "")
		time.Sleep(time.Nanosecond)
		want("late", `level=WARN msg=peer peer=b status=cut members=3 error="dial: refused"`)
		state(peer.State{Err: errors.New("tls: bad certificate")})
		want("unusable", `level=WARN msg="a peer cannot be used" peer=b error="tls: bad certificate"`)
		state(peer.State{Err: wire.ErrSecret})
		want("secret", `level=ERROR msg="a peer cannot be used" peer=b error="the peer has another secret"`)
		state(peer.State{Up: true})
		l.note(ring.Change{Member: "b", Known: true, Was: census.Cut, Status: census.Live, Members: 2})
		want("live", "level=INFO msg=peer peer=b status=live members=2")
		state(peer.State{Err: wire.ErrUnavailable})
		l.note(ring.Change{Member: "b", Known: true, Was: census.Live, Status: census.Cut, Members: 2})
		want("cut", `level=WARN msg=peer peer=b status=cut members=2 error="the peer is not available"`)
		for range 2 {
			state(peer.State{Up: true, Peer: wire.Info{Version: "v2"}})
		}
		want("another version", `level=INFO msg="a peer has another version" peer=b version=v2 own=v1`)
		state(peer.State{Up: true, Peer: wire.Info{Version: "v1"}})
		want("upgraded", "")
		l.note(ring.Change{Member: "b", Known: true, Was: census.Cut, Status: census.Alias, Members: 1})
		if got := told(); !strings.Contains(got, "a listed peer is the same process as another one, or as --self: it counts once and owns no keys") {
			t.Error(got)
		}
		l.note(ring.Change{Member: "b", Known: true, Gone: true, Was: census.Cut, Members: 1})
		want("gone", `level=INFO msg="a peer is not listed any more" peer=b members=1`)
	})
}

// A list that differs for long is logged, and each of its changes from then on.
func TestLogLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, told := textLog()
		l := newMemberLog(log, "v1")
		differ := func(want string, wait time.Duration, here ...string) {
			t.Helper()
			l.note(ring.Change{Member: "b", Lists: &census.Difference{Member: "b", OnlyHere: here}})
			time.Sleep(wait)
			synctest.Wait()
			if got := strings.TrimSpace(told()); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		const line = `level=WARN msg="a peer has another list of peers: give all instances the same --peers" peer=b only_here=`
		differ("", 0)
		differ("", listsAgree-1, "a")
		differ("", 1)
		differ("", listsAgree-1, "a")
		differ(line+`c,d only_there=""`, 1, "c", "d")
		differ(line+`c only_there=""`, 0, "c")
		differ(`level=INFO msg="a peer has the same list of peers again" peer=b`, time.Hour)
		differ("", time.Hour)
	})
}

// The members that are listed are logged where they are few, or this instance is none of them.
func TestLogListed(t *testing.T) {
	log, told := textLog()
	d := &Daemon{log: log, cfg: Config{Peers: &Peers{Members: new(discover.List), Self: "a"}}}
	var was []census.Member
	for _, step := range []struct{ list, want string }{
		{"b c", "--self is none of the peers that were found: this instance owns keys only if a peer lists it"},
		{"b c d", ""},
		{"a b c", ""},
		{"a b", "there are two peers"},
		{"a c", ""},
		{"a", `msg="the fleet has one member, which owns all keys" peer=a`},
		{"b", `self=a found=b`},
	} {
		var all []census.Member
		for name := range strings.FieldsSeq(step.list) {
			all = append(all, census.Member{Name: name})
		}
		d.logListed(was, all)
		was = all
		if got := told(); !strings.Contains(got, step.want) || (got == "") != (step.want == "") {
			t.Errorf("%s: %s, want %s", step.list, got, step.want)
		}
	}
}
