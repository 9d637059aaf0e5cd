package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// State is the initial state for a page.
type State struct {
	Speed       float64      `json:"speed"`
	Window      int          `json:"window_seconds"` // of each sample
	Experiment  string       `json:"experiment"`     // with this setup and client; empty if it is none of the five
	Experiments []Experiment `json:"experiments"`
	Phase       Phase        `json:"phase"`  // of the tour; empty outside of it
	Phases      []Phase      `json:"phases"` // all, in their order
	Settings    Setup        `json:"settings"`
	Client      Client       `json:"client"`
	Samples     []Sample     `json:"samples"`
	Changes     []ChangeMark `json:"changes"`
}

func (l *Live) stateLocked() State {
	s := State{
		Speed:       float64(l.speed),
		Window:      window,
		Experiments: Experiments,
		Phase:       l.phase,
		Phases:      Phases,
		Settings:    l.setup,
		Client:      l.rig.client,
		Samples:     l.samples,
		Changes:     l.changes,
	}
	for _, e := range Experiments {
		if e.Setup == l.setup && s.Client == Source {
			s.Experiment = e.Name
		}
	}
	return s
}

// maxViewers bounds the pages that watch at once; further ones are refused.
const maxViewers = 64

// tellLocked sends an event to every viewer. It is encoded once. If a viewer does not
// take its events in time, the stream ends; the page reconnects and gets the whole
// state.
func (l *Live) tellLocked(event string, v any) {
	e := render(event, v)
	for events := range l.viewers {
		select {
		case events <- e:
		default:
			delete(l.viewers, events)
			close(events)
		}
	}
}

func render(event string, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("demo: %v", err)) // only plain data is sent
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", event, data)
}

func (l *Live) join() (events chan []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.viewers) >= maxViewers {
		return nil, fmt.Errorf("%d pages watch already", maxViewers)
	}
	events = make(chan []byte, 64)
	events <- render("state", l.stateLocked())
	l.viewers[events] = struct{}{}
	return events, nil
}

func (l *Live) leave(events chan []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.viewers, events)
}

// Handler serves the page's API: GET /api/events, a stream of "state" and
// "sample" events, and POST /api/set, which takes a Steer.
func (l *Live) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/events", l.serveEvents)
	mux.HandleFunc("POST /api/set", l.serveSet)
	return mux
}

func (l *Live) serveEvents(w http.ResponseWriter, r *http.Request) {
	err := l.welcome()
	var events chan []byte
	if err == nil {
		events, err = l.join()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer l.leave(events)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	out := http.NewResponseController(w)
	for {
		select {
		case <-r.Context().Done():
			return
		case <-l.ctx.Done():
			return
		case e, ok := <-events:
			if !ok {
				return
			}
			if _, err := w.Write(e); cmp.Or(err, out.Flush()) != nil {
				return
			}
		}
	}
}

func (l *Live) serveSet(w http.ResponseWriter, r *http.Request) {
	// A browser sends this type to other sites only if they allow it, which this
	// handler does not: no other page can change settings.
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		http.Error(w, "send application/json", http.StatusUnsupportedMediaType)
		return
	}
	var s Steer
	dec := json.NewDecoder(io.LimitReader(r.Body, 4096))
	dec.DisallowUnknownFields()
	err := dec.Decode(&s)
	if err == nil {
		err = l.Steer(s)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
