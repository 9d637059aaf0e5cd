package http1client

// CloseIdleConnections closes the idle connections.
func (c *Client) CloseIdleConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, idle := range c.idle {
		_ = idle.nc.Close()
	}
	c.idle = nil
}
