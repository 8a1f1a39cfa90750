package busembed

import (
	"errors"
	"os"
	"path/filepath"
)

// repair undoes half-made streams before the server looks at the store. A
// stream's description and the description's checksum are two files. A server
// that was killed between them skips the stream at its next start; made again,
// the stream works, but nats-server 2.15.2 finds the description there, does
// not write the checksum, and skips the stream with everything in it at every
// later start. Without its description a stream is made again whole, with the
// messages it has.
func repair(store string) error {
	streams, err := filepath.Glob(filepath.Join(store, "jetstream", "*", "streams", "*", "meta.inf"))
	if err != nil {
		return err
	}
	for _, meta := range streams {
		_, err := os.Stat(filepath.Join(filepath.Dir(meta), "meta.sum"))
		if errors.Is(err, os.ErrNotExist) {
			err = os.Remove(meta)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
