package daemon

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/ring"
	"github.com/weir-go/weir/service/internal/ring/census"
)

// firstReach is how long a new member may take until it is reached. Only then is it logged as cut off.
const firstReach = 3 * time.Second

// A memberLog logs changes of the members of a fleet.
type memberLog struct {
	log     *slog.Logger
	version string // of this instance

	mu       sync.Mutex             // guards what follows
	reasons  map[string]string      // why there is no link to a member
	versions map[string]string      // of members, as of the last link
	first    map[string]*time.Timer // of new members that were not reached yet
	differs  map[string]*difference // of members with another list
}

// listsAgree is for how long the list of a member may differ: in DNS, members see a change at different times. Only then
// it is logged.
const listsAgree = 10 * time.Second

// A difference says how the list of a member differs from that of this instance.
type difference struct {
	is     census.Difference
	timer  *time.Timer
	logged bool
}

func newMemberLog(log *slog.Logger, version string) *memberLog {
	return &memberLog{log: log, version: version, reasons: map[string]string{}, versions: map[string]string{}, first: map[string]*time.Timer{}, differs: map[string]*difference{}}
}

// note takes in a change.
func (l *memberLog) note(c ring.Change) {
	facts := []any{"members", c.Members}
	switch {
	case c.Lists != nil:
		l.noteLists(*c.Lists)
	case c.Member != "":
		l.noteMember(c)
	case c.Quorum:
		l.log.Info("this instance sees more than half of its peers", facts...)
	default:
		l.log.Warn("this instance sees half of its peers or less: it decides by its share of the limits", facts...)
	}
}

func (l *memberLog) noteMember(c ring.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Gone {
		delete(l.reasons, c.Member)
		delete(l.versions, c.Member)
	}
	timer, waited := l.first[c.Member]
	if waited {
		timer.Stop()
		delete(l.first, c.Member)
	}
	switch {
	case (!c.Known || waited) && (c.Status == census.Cut || c.Status == census.Dead):
		l.first[c.Member] = time.AfterFunc(firstReach, func() { l.late(c) })
	case waited && c.Gone: // nothing was logged about it
	default:
		l.writeLocked(c)
	}
}

// noteLists takes in how the list of a member differs.
func (l *memberLog) noteLists(is census.Difference) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.differs[is.Member]
	switch {
	case is.IsEmpty():
		if d != nil && !d.timer.Stop() && d.logged { // otherwise the timer does nothing
			l.log.Info("a peer has the same list of peers again", "peer", is.Member)
		}
		delete(l.differs, is.Member)
	case d == nil:
		l.differs[is.Member] = &difference{is: is, timer: time.AfterFunc(listsAgree, func() { l.differ(is.Member) })}
	default:
		if d.is = is; d.logged {
			l.writeLists(is)
		}
	}
}

// differ logs that the list of a member has differed for long.
func (l *memberLog) differ(peer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.differs[peer]; d != nil {
		d.logged = true
		l.writeLists(d.is)
	}
}

func (l *memberLog) writeLists(d census.Difference) {
	l.log.Warn("a peer has another list of peers: give all instances the same --peers",
		"peer", d.Member, "only_here", strings.Join(d.OnlyHere, ","), "only_there", strings.Join(d.OnlyThere, ","))
}

// late logs a new member that was not reached in time.
func (l *memberLog) late(c ring.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, still := l.first[c.Member]; still {
		delete(l.first, c.Member)
		l.writeLocked(c)
	}
}

func (l *memberLog) writeLocked(c ring.Change) {
	facts := []any{"peer", c.Member, "status", c.Status.String(), "members", c.Members}
	reason := l.reasons[c.Member]
	switch {
	case c.Gone:
		l.log.Info("a peer is not listed any more", "peer", c.Member, "members", c.Members)
	case c.Status == census.Alias:
		l.log.Warn("a listed peer is the same process as another one, or as --self: it counts once and owns no keys; list each instance once, by one URL", facts...)
	case c.Status == census.Live || c.Status == census.Left:
		l.log.Info("peer", facts...)
	case reason != "":
		l.log.Warn("peer", append(facts, "error", reason)...)
	default:
		l.log.Warn("peer", facts...)
	}
}

// link returns a function that takes in the state of the link to a member, and calls onState. It logs why a
// member that answers cannot be used, and that it has another version.
func (l *memberLog) link(m census.Member, onState func(peer.State)) func(peer.State) {
	return func(s peer.State) {
		text := ""
		if s.Err != nil {
			text = s.Err.Error()
		}
		l.mu.Lock()
		last := l.reasons[m.Name]
		if l.reasons[m.Name] = text; text == "" {
			delete(l.reasons, m.Name)
		}
		other := s.Up && s.Peer.Version != l.version && s.Peer.Version != l.versions[m.Name]
		if s.Up {
			l.versions[m.Name] = s.Peer.Version
		}
		l.mu.Unlock()
		if other {
			l.log.Info("a peer has another version", "peer", m.Name, "version", s.Peer.Version, "own", l.version)
		}
		switch {
		case text == last:
		case errors.Is(s.Err, wire.ErrSecret):
			l.log.Error("a peer cannot be used", "peer", m.Name, "error", s.Err)
		case peer.Unusable(s.Err):
			l.log.Warn("a peer cannot be used", "peer", m.Name, "error", s.Err)
		}
		onState(s)
	}
}
