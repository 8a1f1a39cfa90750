package follow

import (
	"iter"
	"runtime"
	"sync"

	"github.com/lash-go/lash/projector/index"
)

// rowsAtOnce is the number of index rows that a goroutine decodes in one go.
const rowsAtOnce = 128

// EachIndexRow decodes index rows in several goroutines. Each of them calls a visitor of its own, which start
// makes. Damaged rows and those of other versions are left out: their sessions are read.
func EachIndexRow(values iter.Seq2[[]byte, error], start func() func(*index.Row)) error {
	chunks := make(chan [][]byte, 2*runtime.GOMAXPROCS(0))
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() { // ends with the rows
			visit := start()
			for chunk := range chunks {
				for _, value := range chunk {
					if row, err := index.Decode(value); err == nil {
						visit(row)
					}
				}
			}
		})
	}
	err := chunked(values, chunks)
	close(chunks)
	wait.Wait()
	return err
}

// chunked sends the encoded rows in chunks.
func chunked(values iter.Seq2[[]byte, error], chunks chan<- [][]byte) error {
	var chunk [][]byte
	for value, err := range values {
		if err != nil {
			return err
		}
		if chunk = append(chunk, value); len(chunk) == rowsAtOnce {
			chunks <- chunk // its receivers end after it is closed
			chunk = nil
		}
	}
	chunks <- chunk
	return nil
}
