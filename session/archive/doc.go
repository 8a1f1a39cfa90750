// Package archive writes a session as an archive: its commits, and every body outside the log that they refer to.
package archive
