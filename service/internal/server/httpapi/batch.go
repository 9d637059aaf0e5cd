package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// A batch is a list of requests that are decided together. It is reused.
type batch struct {
	body     []byte
	requests []decider.Request
	verdicts []decider.Verdict
	answers  []decider.Answer // room for the first of each verdict
	all, ids bool
}

// maxKeptBatch bounds the requests of a batch that is kept for the next.
const maxKeptBatch = 1 << 10

// keep clears what belongs to the request, and reports whether the buffers are
// small enough for reuse.
func (b *batch) keep() bool {
	clear(b.requests)
	b.body, b.requests = b.body[:0], b.requests[:0]
	return cap(b.requests) <= maxKeptBatch && cap(b.body) <= maxKept
}

// room allocates a verdict, with room for one answer, for each request.
func (b *batch) room() {
	n := len(b.requests)
	if n <= len(b.verdicts) {
		return
	}
	n = max(n, min(2*len(b.verdicts), maxKeptBatch))
	b.verdicts, b.answers = make([]decider.Verdict, n), make([]decider.Answer, n)
	for i := range b.verdicts {
		b.verdicts[i].Answers = b.answers[i : i : i+1]
	}
}

// decideBatch decides many requests. All are read before any is decided, so that
// an invalid batch takes no tokens.
func (c *call) decideBatch() {
	b := c.api.batches.Get().(*batch)
	lines, f := c.readBatch(b)
	if f == nil {
		for i := range b.requests {
			if f = c.authorize(Rate, b.requests[i].Key); f != nil {
				c.key = b.requests[i].Key
				break
			}
		}
	}
	if f != nil {
		c.fail(f)
	} else {
		c.api.counts.batched.Add(uint64(len(b.requests)))
		b.room()
		if ok, err := c.api.decider.Batch(c.r.Context(), b.requests, b.all, b.verdicts); err == nil {
			c.sendBatch(b, lines, ok)
		} else {
			c.fail(unavailable)
		}
	}
	if b.keep() {
		c.api.batches.Put(b)
	}
}

// readBatch reads the body. lines reports whether it has one request on each line.
func (c *call) readBatch(b *batch) (lines bool, f *fault) {
	if lines, f = c.bodyType(); f != nil {
		return lines, f
	}
	b.all, b.ids = c.params.all, c.params.ids
	if b.body, f = c.receive(b.body); f != nil {
		return lines, f
	}
	d := decoder{text: string(b.body), clean: c.api.cleanKey, most: c.api.cfg.MaxBatch}
	if lines {
		d.eachLine(b)
	} else {
		d.batch(b)
	}
	switch d.err {
	case nil:
		return lines, nil
	case errMany:
		return lines, &fault{status: http.StatusRequestEntityTooLarge, text: "a batch has at most " + strconv.Itoa(c.api.cfg.MaxBatch) + " requests"}
	}
	return lines, &fault{status: http.StatusBadRequest, text: "cannot read the batch: " + d.err.Error()}
}

// bodyType reports whether the body is JSON in lines, or one JSON text.
func (c *call) bodyType() (lines bool, f *fault) {
	if encoding := c.r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return false, &fault{status: http.StatusUnsupportedMediaType, text: "the body must not be encoded"}
	}
	kind, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "", "application/json":
		return false, nil
	case "application/x-ndjson", "application/ndjson":
		return true, nil
	}
	return false, &fault{status: http.StatusUnsupportedMediaType, text: "the Content-Type must be application/json or application/x-ndjson"}
}

// sendBatch answers with the verdicts, in order.
func (c *call) sendBatch(b *batch, lines, ok bool) {
	h := c.w.Header()
	h["Content-Type"] = jsonType
	if lines {
		h["Content-Type"] = linesType
	}
	if b.all && !ok {
		f := fault{status: http.StatusTooManyRequests, retryAfter: b.retryAfter()}
		c.retryAfter(&f)
		c.status = f.status
	}
	out := c.buf[:0]
	if !lines {
		out = append(out, `{"ok":`...)
		out = strconv.AppendBool(out, ok)
		out = append(out, `,"results":[`...)
	}
	written := false
	for i := range b.requests {
		if len(out) > chunk {
			if !written {
				c.w.WriteHeader(c.status)
			}
			_, _ = c.w.Write(out) // a client that is gone needs no answer
			out, written = out[:0], true
		}
		if i > 0 && !lines {
			out = append(out, ',')
		}
		out = c.appendResult(out, b, i)
		if lines {
			out = append(out, '\n')
		}
	}
	if !lines {
		out = append(out, "]}\n"...)
	}
	if !written {
		h["Content-Length"] = []string{strconv.Itoa(len(out))}
		c.w.WriteHeader(c.status)
	}
	_, _ = c.w.Write(out)
	c.buf = out
}

// retryAfter returns when all requests that were denied would be allowed.
func (b *batch) retryAfter() (longest time.Duration) {
	for i := range b.requests {
		longest = max(longest, b.verdicts[i].RetryAfter)
	}
	return longest
}

// appendResult appends the verdict on a request.
func (c *call) appendResult(out []byte, b *batch, i int) []byte {
	v, req := &b.verdicts[i], &b.requests[i]
	if v.OK {
		out = append(out, `{"ok":true`...)
		if remaining, ok := remaining(v); ok {
			out = append(out, `,"remaining":`...)
			out = strconv.AppendInt(out, int64(remaining), 10)
		}
		if b.ids && req.N > 0 {
			out = append(out, `,"request_id":"`...)
			out = append(c.api.decider.AppendGrantID(out, v.Grant, req.Key), '"')
		}
		return append(out, '}')
	}
	f := fault{reason: v.Reason, retryAfter: v.RetryAfter}
	if a := v.Denied(); a != nil {
		f.rule = a.Rule.Name
	}
	out = append(out, `{"ok":false`...)
	return append(f.appendDenial(out), '}')
}
