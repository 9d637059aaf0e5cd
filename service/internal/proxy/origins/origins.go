// Package origins has the servers that the proxy sends requests to. It chooses one for each request by package balance,
// sends the request, tells what an answer or a missing one says about the server, and checks the servers' health.
package origins

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/service/internal/balance"
	"github.com/weir-go/weir/service/internal/http1client"
)

// maxOrigins bounds the number of origins, and so the values of the label origin.
const maxOrigins = 1000

// MaxMoves bounds how often a request goes to another origin.
const MaxMoves = 2

// A Set has the servers that requests go to. It is the shell of a balance.Set.
type Set struct {
	list  []*Origin
	epoch time.Time // of Proxy
	log   *slog.Logger
	dial  dialFunc

	ordinary transport // to origins other than those of h2c

	mu  sync.Mutex // guards set
	set *balance.Set
}

// An Origin is one origin.
type Origin struct {
	name      string // its URL
	url       *url.URL
	transport http.RoundTripper
	own       bool                          // the transport is the proxy's own
	client    *http1client.Client           // for brief requests; nil: they use the transport
	signs     [loadsign.Count]atomic.Uint64 // of its answers, and missing ones
	ejected   [balance.Causes]atomic.Uint64 // how often it was ejected
	retried   atomic.Uint64                 // requests that went to another origin, because this one did not answer
}

// Config configures origins.
type Config struct {
	URLs      []string
	TLS       *tls.Config       // nil: the certificates of the system count
	Transport http.RoundTripper // nil: the origins' own
	Dial      dialFunc
	Epoch     time.Time // instants are durations since then
	Log       *slog.Logger
}

// New returns the origins of some URLs.
func New(cfg Config) (*Set, error) {
	if n := len(cfg.URLs); n == 0 || n > maxOrigins {
		return nil, fmt.Errorf("proxy: Origins: there are %d: must be 1 to %d", n, maxOrigins)
	}
	s := &Set{epoch: cfg.Epoch, log: cfg.Log, dial: cfg.Dial, set: balance.New(len(cfg.URLs))}
	s.ordinary.Store(newTransport(cfg.Dial, cfg.TLS, false))
	ordinary, cleartext := cmp.Or(cfg.Transport, http.RoundTripper(&s.ordinary)), cmp.Or(cfg.Transport, http.RoundTripper(newTransport(cfg.Dial, nil, true)))
	for _, text := range cfg.URLs {
		u, err := url.Parse(text)
		isUnix := err == nil && u.Scheme == "unix"
		switch {
		case !strings.Contains(text, "://"):
			return nil, fmt.Errorf("proxy: Origins = %q: must begin with a scheme, as in %q", text, withScheme(text))
		case err != nil:
			return nil, fmt.Errorf("proxy: Origins: %w", err)
		case isUnix && (u.Host != "" || len(u.Path) < 2 || u.RawQuery != ""):
			return nil, fmt.Errorf("proxy: Origins = %q: must have the path of a socket alone, as in unix:///run/app.sock", text)
		case !isUnix && (u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c" || u.Host == ""):
			return nil, fmt.Errorf("proxy: Origins = %q: must be an absolute http, https, h2c or unix URL", text)
		case !isPort(u.Port()):
			return nil, fmt.Errorf("proxy: Origins = %q: must have a port from 1 to 65535, or none", text)
		case u.User != nil || u.Fragment != "":
			return nil, fmt.Errorf("proxy: Origins = %q: must have no user and no fragment", u.Redacted())
		}
		o := &Origin{name: u.String(), url: u, transport: ordinary, own: cfg.Transport == nil}
		dial := cfg.Dial
		if isUnix {
			dial = dialUnix(dial, u.Path)
			o.url = &url.URL{Scheme: "http", Host: "localhost"}
			o.transport = cmp.Or(cfg.Transport, http.RoundTripper(newTransport(dial, nil, false)))
		}
		switch {
		case u.Scheme == "h2c":
			u.Scheme, o.transport = "http", cleartext
		case o.url.Scheme == "http" && cfg.Transport == nil && http1client.Supported:
			o.client = newClient(dial, o.url)
		}
		for _, other := range s.list {
			if other.name == o.name {
				return nil, fmt.Errorf("proxy: Origins = %q: is there twice", text)
			}
		}
		s.list = append(s.list, o)
	}
	return s, nil
}

// withScheme returns a URL for an address of a server, or of a socket as listeners have it.
func withScheme(address string) string {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return "unix://" + path
	}
	return "http://" + address
}

// isPort reports whether a text is a TCP port, or empty.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && n > 0
}

// UseTLS replaces the configuration of TLS. Requests in flight keep their connections.
func (s *Set) UseTLS(cfg *tls.Config) {
	s.ordinary.Swap(newTransport(s.dial, cfg, false)).CloseIdleConnections()
}

// A Place is the place of a request at an origin: it counts among the requests that the origin works on.
type Place struct {
	ticket balance.Ticket
	Taken  bool // the request has it
}

// Origin returns the index of the origin.
func (at *Place) Origin() int { return at.ticket.Origin }

// IsTrial reports whether the request tries an origin that is out.
func (at *Place) IsTrial() bool { return at.ticket.Trial() }

// SentAt returns the place of a request that the origin has had as a whole since an instant, or has not yet, if that is weir.Never.
func (at Place) SentAt(whole time.Duration) Place {
	at.ticket = at.ticket.Sent(whole)
	return at
}

// Count returns the number of origins.
func (s *Set) Count() int { return len(s.list) }

// At returns an origin.
func (s *Set) At(origin int) *Origin { return s.list[origin] }

// CountRetried counts a request that went to another origin, because this one did not answer.
func (s *Set) CountRetried(origin int) { s.list[origin].retried.Add(1) }

// A PauseError says that all origins have asked for a pause.
type PauseError time.Duration

func (e PauseError) Error() string {
	return fmt.Sprintf("the origin asked for a pause of %v by Retry-After", time.Duration(e))
}

// Choose gives a request a place at an origin in proportion to sizes, unless they are nil. It is not avoid, unless
// that is -1.
func (s *Set) Choose(random uint64, avoid int, sizes balance.Sizes, at *Place) (err error) {
	now := time.Since(s.epoch)
	s.mu.Lock()
	if at.ticket, at.Taken = s.set.Pick(now, random, avoid, sizes); !at.Taken {
		err = PauseError(s.set.Wait(now))
	}
	s.unlock()
	return err
}

// unlock releases the mutex after a call that may have ejected origins as silent.
func (s *Set) unlock() {
	changed := s.set.Changed()
	s.mu.Unlock()
	for _, origin := range changed {
		s.countEjection(origin, balance.NoAnswers)
	}
}

var errNoOther = errors.New("there is no other origin")

// PlaceAnywhere gives a request a place at any origin but avoid. If all ask for a pause, it does nothing.
func (s *Set) PlaceAnywhere(at *Place, avoid int) error {
	if err := s.Choose(rand.Uint64(), avoid, nil, at); err != nil && avoid >= 0 {
		return errNoOther
	}
	return nil
}

// PlaceAt gives a request a place at an origin, if that is in.
func (s *Set) PlaceAt(at *Place, origin int) bool {
	s.mu.Lock()
	defer s.unlock()
	at.ticket, at.Taken = s.set.Take(time.Since(s.epoch), origin)
	return at.Taken
}

// Withdraw takes the place of a request that has not been sent.
func (s *Set) Withdraw(at *Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.Withdraw(at.ticket)
	at.Taken = false
}

// ChooseQueue chooses the origin at which a request waits. Then PlaceFromQueue or QuitQueue must follow.
func (s *Set) ChooseQueue(avoid int, sizes balance.Sizes) (origin int, ok bool) {
	s.mu.Lock()
	defer s.unlock()
	return s.set.Await(time.Since(s.epoch), avoid, sizes)
}

// PlaceFromQueue gives a request that has waited its place.
func (s *Set) PlaceFromQueue(at *Place, origin int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at.ticket, at.Taken = s.set.Enter(time.Since(s.epoch), origin), true
}

// QuitQueue tells the Set that a request waits no longer at an origin.
func (s *Set) QuitQueue(origin int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.GiveUp(origin)
}

// IsOut reports whether an origin is out, and another one is not.
func (s *Set) IsOut(origin int) bool {
	s.mu.Lock()
	defer s.unlock()
	return s.set.Out(time.Since(s.epoch), origin)
}

// NoteUpload tells the Set that a client still sends a request to an origin. Until NoteSent, the
// origin does not count as silent for want of an answer to it.
func (s *Set) NoteUpload(origin int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.Sending(origin)
}

// NoteSent tells the Set that an origin has all of a request.
func (s *Set) NoteSent(now time.Duration, origin int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.Sent(now, origin)
}

// noteUnchecked tells the Set that there are no health checks.
func (s *Set) noteUnchecked(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.Unchecked(now)
}

// Release gives back the place of a request that was sent.
func (s *Set) Release(at *Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.Leave(at.ticket)
}

// Direct sets the URL of a request to the origin. It keeps the Host.
func (o *Origin) Direct(req *http.Request) {
	host := req.Host
	(&httputil.ProxyRequest{Out: req}).SetURL(o.url)
	req.Host = host
}

// JudgeAnswer tells the Set the answer to a request, with its sign of load. Faultless means that the client has caused it.
func (s *Set) JudgeAnswer(now time.Duration, at Place, a Answer, sign loadsign.Sign, faultless bool) {
	r, after := resultOf(a, sign)
	if faultless {
		r = balance.Unknown
	}
	s.judge(now, at, sign, r, after)
}

// JudgeSilence tells the Set that an origin has not answered a request in time.
func (s *Set) JudgeSilence(now time.Duration, at Place) {
	s.judge(now, at, loadsign.Silent, balance.Silent, 0)
}

// judge tells the Set how a request has ended, and logs if that changes the state of the origin.
func (s *Set) judge(now time.Duration, at Place, sign loadsign.Sign, r balance.Result, after time.Duration) {
	t := at.ticket
	s.list[t.Origin].signs[sign].Add(1)
	s.changeState(now, t.Origin, after, func() { s.set.Judge(now, t, r, after) })
}

// noteCheck tells the Set the result of a health check.
func (s *Set) noteCheck(now time.Duration, origin int, well bool) {
	s.changeState(now, origin, 0, func() { s.set.Checked(now, origin, well) })
}

// changeState changes the Set, and logs if that changes the state of an origin.
func (s *Set) changeState(now time.Duration, origin int, after time.Duration, apply func()) {
	o := s.list[origin]
	s.mu.Lock()
	was := s.set.Origin(now, origin).State
	apply()
	changed := s.set.Origin(now, origin)
	s.mu.Unlock()
	switch is := changed.State; {
	case was == is:
	case is == balance.Ejected:
		s.countEjection(origin, changed.Cause)
	case is == balance.Held:
		s.log.Warn("the origin answers 503 with Retry-After to all requests: it gets a request each second for a while", "origin", o.name, "retry_after", after)
	case is == balance.Starting:
		s.log.Info("the origin works again", "origin", o.name)
	}
}

// countEjection counts and logs that an origin is ejected.
func (s *Set) countEjection(origin int, why balance.Cause) {
	o := s.list[origin]
	o.ejected[why].Add(1)
	s.log.Warn("the origin fails: it gets no requests for a while", "origin", o.name, "cause", why.String())
}
