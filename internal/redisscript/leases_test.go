package redisscript_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redisscript"
)

func TestLeaseReply(t *testing.T) {
	for _, tt := range []struct {
		reply []int64
		want  redisscript.LeaseReply
	}{
		{[]int64{1e15, 1, 3, 7}, redisscript.LeaseReply{Time: 1e9 * time.Second, Granted: true, Held: 3, Token: 7}},
		{[]int64{1e15, 0, 3, 7}, redisscript.LeaseReply{Time: 1e9 * time.Second, Held: 3, Wait: 7 * time.Microsecond}},
	} {
		if got, err := redisscript.ReadLeaseReply(tt.reply); got != tt.want || err != nil {
			t.Errorf("%v: %+v, %v, want %+v", tt.reply, got, err, tt.want)
		}
	}
	if _, err := redisscript.ReadLeaseReply(make([]int64, 3)); err == nil {
		t.Error("three numbers are a reply")
	}
}
