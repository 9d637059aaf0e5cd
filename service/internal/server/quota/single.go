package quota

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
)

// single is one token bucket for all keys.
type single struct {
	l     *rate.Limiter
	clock *clock.Clock
}

func (s single) Kind() string              { return "single" }
func (s single) Fingerprint(string) uint64 { return 0 }

func (s single) Take(_ string, _ uint64, at time.Duration, n, limit int) weir.Decision {
	when := s.clock.Time(at)
	d := s.l.TakeAt(when, n)
	if limit <= 0 {
		return d
	}
	return tighten(d, s.l.Quota(), n, limit, func() { s.l.Settle(n, 0) }, func() float64 { return s.l.TokensAt(when) })
}

func (s single) Settle(_ string, _ time.Duration, was, n int) int { return s.l.Settle(was, n) }

func (s single) Ahead(_ string, n, limit int) time.Duration {
	q := s.l.Quota()
	return untilTokens(q, s.l.Tokens(), n+reserve(q, limit))
}

func (s single) Used(string) int         { return missing(s.l.Quota(), s.l.Tokens()) }
func (s single) SetQuota(q config.Quota) { s.l.SetQuota(bucketOf(q)) }
func (s single) Memory() (int, uint64)   { return 0, 0 }

// Snapshot writes the wall time and the tokens, as two 64-bit words.
func (s single) Snapshot(w io.Writer) error {
	b := binary.LittleEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
	_, err := w.Write(binary.LittleEndian.AppendUint64(b, math.Float64bits(s.l.Tokens())))
	return err
}

// Restore takes the missing tokens from a full bucket, at an instant in the past
// such that fractions of a token that have come in since are counted.
func (s single) Restore(r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if len(b) != 16 {
		return errors.New("want 16 bytes")
	}
	passed := max(time.Duration(time.Now().UnixNano()-int64(binary.LittleEndian.Uint64(b))), 0)
	lack := float64(s.l.Burst()) - math.Float64frombits(binary.LittleEndian.Uint64(b[8:]))
	if !(lack <= 1<<53) {
		return errors.New("the number of tokens is out of range")
	}
	q := s.l.Quota()
	if lack -= q.Rate() * passed.Seconds(); lack <= 0 || q.Unlimited() {
		return nil
	}
	n, ago := math.Ceil(lack), time.Duration(0)
	if n > lack {
		ago = time.Duration((n - lack) / q.Rate() * float64(time.Second))
	}
	taken := min(int(n), s.l.Burst())
	s.l.TakeAt(time.Now().Add(-ago), taken)
	s.l.Settle(taken, int(n)) // beyond the burst it is debt
	return nil
}
