//go:build unix

package busembed

import "golang.org/x/sys/unix"

// Free is how many bytes a user may still write to the disk of the store.
func (s *Server) Free() (int64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(s.storeDir, &disk); err != nil {
		return 0, err
	}
	return int64(disk.Bavail) * int64(disk.Bsize), nil //nolint:gosec,unconvert // the types differ by system
}
