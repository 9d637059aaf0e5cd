package rate

// Waiting returns how many calls wait.
func (l *Limiter) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.Len()
}
