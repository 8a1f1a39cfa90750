//go:build !linux

package busembed

import "errors"

// The server syncs stream by stream on these systems.
const canSyncFilesystem = false

type filesystem struct{}

func openFilesystem(string) (*filesystem, error) { return nil, errors.ErrUnsupported }

func (*filesystem) sync() error { return errors.ErrUnsupported }

func (*filesystem) close() {}
