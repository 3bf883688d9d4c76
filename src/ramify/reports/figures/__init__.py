"""Figures as small vector panels: laid out by the page in HTML, or composed into one SVG or PNG file."""
