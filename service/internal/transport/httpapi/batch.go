package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/atmost"
	"github.com/weir-go/weir/service/internal/transport/wirejson/batchjson"
	"github.com/weir-go/weir/service/internal/transport/wirejson/jsontext"
)

// A batch is a list of requests that are decided together. It is reused.
type batch struct {
	batchjson.Batch
	body     []byte
	held     int64 // bytes of connlimit.Bodies
	verdicts []decider.Verdict
	answers  []decider.Answer // room for the first of each verdict
}

// maxBatch bounds the requests of a batch.
const maxBatch = 10_000

// maxKeptBatch bounds the requests of a batch that is kept for the next.
const maxKeptBatch = 1 << 10

const (
	// requestBytes is the memory of a request of a batch, besides the body, until it is
	// answered.
	requestBytes = 256
	// leastRequest is the least length of a request in a body.
	leastRequest = len(`{"key":"k"}`)
)

// keep clears what belongs to the request, and reports whether the buffers are
// small enough for reuse.
func (b *batch) keep() bool {
	clear(b.Requests)
	b.body, b.Requests, b.AtMost = b.body[:0], b.Requests[:0], b.AtMost[:0]
	return cap(b.Requests) <= maxKeptBatch && cap(b.body) <= maxKept
}

// room allocates a verdict, with room for one answer, for each request.
func (b *batch) room() {
	n := len(b.Requests)
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
func (c *call) decideBatch() *fault {
	if f := c.authorize(token.Decide, ""); f != nil && f.status == http.StatusUnauthorized {
		return f // without reading the body
	}
	b := c.api.batches.Get().(*batch)
	defer func() {
		c.api.limits[connlimit.Bodies].Leave(c.client, b.held)
		b.held = 0
		if b.keep() {
			c.api.batches.Put(b)
		}
	}()
	lines, f := c.readBatch(b)
	if f != nil {
		return f
	}
	for i := range b.Requests {
		if f = c.authorize(token.Decide, b.Requests[i].Key); f != nil {
			c.key = b.Requests[i].Key
			return f
		}
		b.Requests[i].WantID = b.IDs && b.Requests[i].N > 0
	}
	if b.All && len(b.AtMost) > 0 {
		return bad("all and at_most exclude each other")
	}
	if !c.hold(b, int64(len(b.Requests)+2*len(b.AtMost))*requestBytes) {
		return busy
	}
	c.api.batched.Add(uint64(len(b.Requests)))
	b.room()
	ok, err := atmost.DecideEach(c.r.Context(), c.api.decider, &b.Batch, b.verdicts)
	if err != nil {
		return c.undecided(err)
	}
	c.sendBatch(b, lines, ok)
	return nil
}

// readBatch reads the body. lines reports whether it has one request on each line.
func (c *call) readBatch(b *batch) (lines bool, f *fault) {
	if lines, f = c.bodyType(); f != nil {
		return lines, f
	}
	if f = c.receive(b); f != nil {
		return lines, f
	}
	b.All, b.IDs = c.params.All, c.params.IDs
	read := b.Read
	if lines {
		read = b.ReadLines
	}
	text := string(b.body)
	if cap(b.body) > maxKept {
		b.body = nil
	}
	switch err := read(text, batchjson.Limits{Requests: maxBatch, Key: c.api.cfg.MaxKey}); err {
	case nil:
		return lines, nil
	case batchjson.ErrMany:
		return lines, manyAsked
	default:
		return lines, bad("cannot read the batch: %v", err)
	}
}

// bodyType reports whether the body is JSON in lines, or one JSON text.
func (c *call) bodyType() (lines bool, f *fault) {
	if encoding := c.r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return false, encodedBody
	}
	kind, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "", "application/json":
		return false, nil
	case "application/x-ndjson", "application/ndjson":
		return true, nil
	}
	return false, otherType
}

// sendBatch answers with the verdicts, in order.
func (c *call) sendBatch(b *batch, lines, ok bool) {
	contentType, first, between, last := jsonType, `{"ok":`+strconv.FormatBool(ok)+`,"results":[`, ",", "]}\n"
	if lines {
		contentType, first, between, last = linesType, "", "\n", "\n"
		if len(b.Requests) == 0 {
			last = ""
		}
	}
	c.w.Header()["Content-Type"] = contentType
	if b.All && !ok {
		c.status = http.StatusTooManyRequests
		longest := time.Duration(0) // until all of them would be allowed
		for i := range b.Requests {
			longest = max(longest, b.verdicts[i].RetryAfter)
		}
		c.retryAfter(longest)
	}
	out, written, partial := append(c.buf[:0], first...), false, b.AtMost
	for i := range b.Requests {
		if len(out) > chunk {
			if !written {
				c.w.WriteHeader(c.status)
			}
			_, _ = c.w.Write(out) // a client that is gone needs no answer
			out, written = out[:0], true
		}
		if i > 0 {
			out = append(out, between...)
		}
		atMost := len(partial) > 0 && partial[0].Index == i
		if atMost {
			partial = partial[1:]
		}
		out = c.appendResult(out, b, i, atMost)
	}
	out = append(out, last...)
	if !written {
		c.w.Header()["Content-Length"] = []string{strconv.Itoa(len(out))}
		c.w.WriteHeader(c.status)
	}
	_, _ = c.w.Write(out)
	c.buf = out
}

// appendResult appends the verdict on a request.
func (c *call) appendResult(out []byte, b *batch, i int, atMost bool) []byte {
	v, req := &b.verdicts[i], &b.Requests[i]
	if v.OK {
		out = append(out, `{"ok":true`...)
		if remaining, ok := v.Remaining(); ok {
			out = jsontext.AppendInt(out, `,"remaining":`, remaining)
		}
		if atMost {
			out = jsontext.AppendInt(out, `,"granted":`, req.N)
		}
		if b.IDs && req.N > 0 {
			out = append(out, `,"request_id":"`...)
			out = append(c.api.decider.AppendGrantID(out, v.Grant, req.Key), '"')
		}
		return append(appendStep(out, v.Step), '}')
	}
	if v.Reason == 0 { // another request of a batch that is all or nothing was denied
		return append(appendStep(append(out, `{"ok":false,"reason":"batch_denied"`...), v.Step), '}')
	}
	f := fault{reason: v.Reason, retryAfter: v.RetryAfter}
	if a := v.Denied(); a != nil {
		f.rule = a.Rule.Name
	}
	return append(appendStep(f.appendDenial(append(out, `{"ok":false`...)), v.Step), '}')
}

// appendStep appends the member for a decision that is degraded.
func appendStep(b []byte, step decider.Step) []byte {
	if !step.Degraded() {
		return b
	}
	return jsontext.AppendText(b, `,"degraded":`, step.String())
}
