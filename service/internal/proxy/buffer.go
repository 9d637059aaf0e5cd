package proxy

import "sync"

// bufferSize is the size of the buffers for copying bodies.
const bufferSize = 32 << 10

// bufferPool reuses the buffers for copying bodies.
type bufferPool struct{ pool sync.Pool }

func (b *bufferPool) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, bufferSize)
}

func (b *bufferPool) Put(buf []byte) { b.pool.Put(&buf) }
