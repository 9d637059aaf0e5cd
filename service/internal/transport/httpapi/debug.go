package httpapi

import (
	"cmp"
	"slices"

	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/wirejson/jsontext"
)

// maxInstances bounds the keys that /debug shows: the keys with the most requests.
const maxInstances = 10_000

// chunk is the size in which a long answer is written, in bytes.
const chunk = 32 << 10

// instances shows the keys with counts, in order. debugsAtOnce bounds the calls at a
// time, because it is expensive. The time-out of the answer bounds each chunk, without the
// time to find the keys.
func (c *call) instances() *fault {
	c.suspendDeadline()
	seen, err := c.api.decider.Top(c.r.Context(), maxInstances)
	if err != nil {
		return c.failed()
	}
	slices.SortFunc(seen, func(a, b decider.Seen) int { return cmp.Compare(a.Key, b.Key) })
	c.w.Header()["Content-Type"] = jsonType
	b, between := append(c.buf[:0], `{"Instances":{`...), ""
	for i := range seen {
		if i > 0 && seen[i].Key == seen[i-1].Key {
			continue // remembered twice
		}
		if c.r.Context().Err() != nil {
			return left
		}
		x, err := c.api.decider.Explain(c.r.Context(), seen[i].Key)
		if err != nil {
			continue
		}
		st := counted(&x)
		if st == nil {
			continue
		}
		b = append(jsontext.AppendText(b, between, seen[i].Key), ':')
		b, between = appendInstance(b, seen[i].Key, st), ","
		if len(b) > chunk {
			c.restoreDeadline()
			_, _ = c.w.Write(b) // a client that is gone needs no answer
			b = b[:0]
		}
	}
	c.buf = append(b, "}}\n"...)
	c.restoreDeadline()
	_, _ = c.w.Write(c.buf)
	return nil
}

// instance shows one key.
func (c *call) instance() *fault {
	x, err := c.api.decider.Explain(c.r.Context(), c.key)
	if err != nil {
		return c.failed()
	}
	if st := counted(&x); st != nil {
		c.buf = append(appendInstance(c.buf[:0], c.key, st), '\n')
		c.send(jsonType)
		return nil
	}
	return c.sendObject(append(jsontext.AppendText(c.buf[:0], `{"Key":`, c.key), `,"Found":false`...))
}

// counted returns the first rule with a rate; nil if it counts nothing of a key.
func counted(x *decider.Explanation) *decider.RuleState {
	for i := range x.Rules {
		if st := &x.Rules[i]; st.Rule.Rated() {
			if st.Used > 0 || st.Denied > 0 || st.Waiting > 0 {
				return st
			}
			return nil
		}
	}
	return nil
}

// appendInstance appends the state of a key in the format of GoCC.
func appendInstance(b []byte, key string, st *decider.RuleState) []byte {
	b = jsontext.AppendText(b, `{"Key":`, key)
	b = jsontext.AppendInt(b, `,"Config":{"WindowMillis":`, st.Rule.Rate.Period.Milliseconds())
	b = jsontext.AppendInt(b, `,"MaxRequestsPerWindow":`, st.Rule.Rate.Count)
	b = jsontext.AppendInt(b, `,"MaxRequestsInQueue":`, st.Rule.MaxQueue)
	b = jsontext.AppendInt(b, `},"NumApprovedThisWindow":`, st.Used)
	b = jsontext.AppendInt(b, `,"NumDeniedThisWindow":`, st.Denied)
	b = jsontext.AppendInt(b, `,"NumWaiting":`, st.Waiting)
	return append(b, `,"Found":true}`...)
}

// health answers that the server is running.
func (c *call) health() *fault {
	return c.sendText(append(c.buf[:0], "OK"...))
}
