// Package recordingtest has recorded conversations of agents that never ran: the one that demonstrations play, some that are
// written by hand because the order of their entries is unusual, and those that a generator makes of a seed. Each is
// lines of JSON, as package recording reads them. It is for tests, and for commands that show something without a
// recording of the user's own.
package recordingtest
