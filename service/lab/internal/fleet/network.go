package fleet

import "time"

// send begins an exchange of a leaf.
func (s *Sim) send(i int) {
	s.advance(i)
	l := &s.leaves[i]
	l.due = never
	message, reports := l.node.send(s.now)
	l.flight = &flight{leaf: int32(i), message: message}
	s.meter.exchanges++
	s.meter.reports += reports
	s.agenda.push(s.now+s.sc.Network.Timeout, evTimeout, i, 0, l.flight)
	s.transmit(l.flight)
}

// transmit carries a message to the upstream.
func (s *Sim) transmit(f *flight) {
	if s.leaves[f.leaf].cuts == 0 && !s.lost() {
		s.agenda.push(s.now+s.sc.Network.Delay.Draw(s.net), evAsk, int(f.leaf), 0, f)
	}
}

func (s *Sim) lost() bool { return s.sc.Network.Loss > 0 && s.net.Float64() < s.sc.Network.Loss }

// ask has the upstream answer an exchange. One that is down refuses the connection.
func (s *Sim) ask(f *flight) {
	if s.centre != nil {
		f.answer = s.centre.answer(s.now, f.message)
	}
	if !f.oneWay && s.leaves[f.leaf].cuts == 0 && !s.lost() {
		s.agenda.push(s.now+s.sc.Network.Delay.Draw(s.net), evAnswer, int(f.leaf), 0, f)
	}
}

// decide has the upstream decide about a token, at once. It reports whether the leaf can
// reach it.
func (s *Sim) decide(i int, now time.Duration, key string) (allowed, ok bool) {
	c, ok := s.centre.(interface {
		decide(now time.Duration, key string) bool
	})
	if !ok || s.leaves[i].cuts > 0 {
		return false, false
	}
	s.meter.asks++
	return c.decide(now, key), true
}

// receive ends an exchange, unless it has ended before.
func (s *Sim) receive(f *flight, answer any) {
	l := &s.leaves[f.leaf]
	if l.flight != f {
		return
	}
	if answer == nil {
		s.meter.failures++
	}
	s.advance(int(f.leaf))
	l.flight = nil
	l.node.receive(s.now, answer)
	s.schedule(int(f.leaf))
}
