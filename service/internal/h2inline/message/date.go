package message

import (
	"net/http"
	"sync/atomic"
	"time"
)

// A Date formats the header field Date once a second. It is safe for concurrent use.
type Date struct{ last atomic.Pointer[second] }

type second struct {
	at   int64
	text string
}

// At returns the field at an instant.
func (d *Date) At(now time.Time) string {
	s := d.last.Load()
	if at := now.Unix(); s == nil || s.at != at {
		s = &second{at, now.UTC().Format(http.TimeFormat)}
		d.last.Store(s)
	}
	return s.text
}
