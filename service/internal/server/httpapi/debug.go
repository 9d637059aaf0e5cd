package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// maxInstances bounds the keys that /debug shows: the keys with the most requests.
const maxInstances = 10_000

// chunk is the size in which a long answer is written, in bytes.
const chunk = 32 << 10

// instances shows the keys with counts, in order.
func (c *call) instances() {
	seen, err := c.top()
	if err != nil {
		c.failed()
		return
	}
	c.w.Header()["Content-Type"] = jsonType
	c.buf = append(c.buf[:0], `{"Instances":{`...)
	first := true
	for i := range seen {
		if i > 0 && seen[i].Key == seen[i-1].Key {
			continue // remembered twice
		}
		x, err := c.api.decider.Explain(c.r.Context(), seen[i].Key)
		st, found := counted(&x)
		if err != nil || !found {
			continue
		}
		if !first {
			c.buf = append(c.buf, ',')
		}
		first = false
		c.buf = append(appendString(c.buf, seen[i].Key), ':')
		c.buf = appendInstance(c.buf, seen[i].Key, st)
		if len(c.buf) > chunk {
			_, _ = c.w.Write(c.buf) // a client that is gone needs no answer
			c.buf = c.buf[:0]
		}
	}
	c.buf = append(c.buf, "}}\n"...)
	_, _ = c.w.Write(c.buf)
}

// top returns the keys in order. It serves one call at a time, because it is
// expensive. If the client disconnects before, it returns an error.
func (c *call) top() ([]decider.Seen, error) {
	select {
	case c.api.debug <- struct{}{}:
	case <-c.r.Context().Done():
		return nil, c.r.Context().Err()
	}
	defer func() { <-c.api.debug }()
	seen, err := c.api.decider.Top(c.r.Context(), maxInstances, false)
	slices.SortFunc(seen, func(a, b decider.Seen) int { return cmp.Compare(a.Key, b.Key) })
	return seen, err
}

// instance shows one key.
func (c *call) instance() {
	x, err := c.api.decider.Explain(c.r.Context(), c.key)
	if err != nil {
		c.failed()
		return
	}
	if st, found := counted(&x); found {
		c.buf = appendInstance(c.buf[:0], c.key, st)
	} else {
		c.buf = append(c.buf[:0], `{"Key":`...)
		c.buf = append(appendString(c.buf, c.key), `,"Found":false}`...)
	}
	c.buf = append(c.buf, '\n')
	c.send(http.StatusOK, jsonType)
}

// counted returns the first rule with a rate, if it counts anything of a key.
func counted(x *decider.Explanation) (*decider.RuleState, bool) {
	for i := range x.Rules {
		if st := &x.Rules[i]; st.Rule.Rated() {
			return st, st.Used > 0 || st.Denied > 0 || st.Waiting > 0
		}
	}
	return nil, false
}

// appendInstance appends the state of a key in the format of GoCC.
func appendInstance(b []byte, key string, st *decider.RuleState) []byte {
	queue := config.DefaultQueue
	if st.Rule.Queue != nil {
		queue = *st.Rule.Queue
	}
	b = append(b, `{"Key":`...)
	b = appendString(b, key)
	b = append(b, `,"Config":{"WindowMillis":`...)
	b = strconv.AppendInt(b, int64(st.Rule.Rate.Period/time.Millisecond), 10)
	b = append(b, `,"MaxRequestsPerWindow":`...)
	b = strconv.AppendInt(b, int64(st.Rule.Rate.Count), 10)
	b = append(b, `,"MaxRequestsInQueue":`...)
	b = strconv.AppendInt(b, int64(queue), 10)
	b = append(b, `},"NumApprovedThisWindow":`...)
	b = strconv.AppendInt(b, int64(st.Used), 10)
	b = append(b, `,"NumDeniedThisWindow":`...)
	b = strconv.AppendUint(b, st.Denied, 10)
	b = append(b, `,"NumWaiting":`...)
	b = strconv.AppendInt(b, int64(st.Waiting), 10)
	return append(b, `,"Found":true}`...)
}

// health answers that the server is running.
func (c *call) health() {
	c.buf = append(c.buf[:0], "OK"...)
	c.send(http.StatusOK, textType)
}
