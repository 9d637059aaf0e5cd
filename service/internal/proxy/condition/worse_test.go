package condition

import "testing"

func TestWorseThan(t *testing.T) {
	for _, tt := range []struct {
		was, now Status
		want     string
	}{
		{Status{Condition: Well}, Status{Condition: Well}, ""},
		{Status{Condition: Well}, Status{Condition: LimitUsed}, "limit_used"},
		{Status{Condition: LimitUsed}, Status{Condition: LimitUsed}, ""},
		{Status{Condition: LimitUsed}, Status{Condition: Silent}, "timeout"},
		{Status{Condition: Silent}, Status{Condition: Well}, ""},
		{Status{Condition: Well}, Status{Condition: Well, Out: []string{"http://a (silence)"}}, OriginOut},
		{Status{Condition: Well, Out: []string{"http://a (silence)"}}, Status{Condition: Well, Out: []string{"http://a (silence)"}}, ""},
		{Status{Condition: Well, Out: []string{"http://a (silence)"}}, Status{Condition: Well, Out: []string{"http://b (silence)"}}, OriginOut},
		{Status{Condition: Well, Out: []string{"http://a (silence)"}}, Status{Condition: Well}, ""},
		{Status{Condition: Well, Out: []string{"http://a (silence)"}}, Status{Condition: Well, Out: []string{"http://a (connections)"}}, ""}, // a trial failed
		{Status{Condition: Well, Out: []string{"http://a (silence)"}}, Status{Condition: Well, Out: []string{"http://a (connections)", "http://b (held)"}}, OriginOut},
	} {
		if got := tt.now.worseThan(&tt.was); got != tt.want {
			t.Errorf("%+v after %+v: %q, want %q", tt.now, tt.was, got, tt.want)
		}
	}
}
